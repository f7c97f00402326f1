"""The certificate: the chosen network is built and timed until one is measured to keep the budget.

A measured network corrects the prediction: with m measured and c its cost in the programme (never below the predicted
r: operations that the runtime merges are counted each), the next one is sought under c' ≤ budget · c/m. Over budget,
that tightens the limit; well under it, it loosens the limit, so that the budget is used; between a limit that was too
loose and one that left too much, the next lies in the middle. The n-th miss aims (2^(n-1) − 1) % below the budget, so
that near misses cannot go on for ever. Among networks close to the budget those come first that a measurement made too
fast; so a network that fits by less than twice the noise floor is measured again, and the slower figure counts.

The trained file is timed again before it is handed over, hours later, and machines drift: the same file by 2.5 % within
minutes on a quiet one. So a network is sought that leaves that much of its budget; one that keeps it with less to spare
is taken only where none does.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipeline.budget.targets import Demands
from pipeline.errors import PromiseBroken
from pipeline.latency.budget_rule import Measured
from pipeline.latency.target import certain, measure_quietly
from pipeline.selection.candidate import Candidate
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton

_AIM_STEP = 0.01
# Budget left unused beside that, below which looking for a larger network does not pay for another measurement.
_LEAST_SLACK = 0.02
_CLOSE_FLOORS = 2

Measure = Callable[[Skeleton, Genotype], Measured]


class Certified(NamedTuple):
    """The network that keeps its budget, and all that were measured. `factor` is the correction of predicted limits."""

    best: Candidate
    tried: tuple[Candidate, ...]
    factor: float


class Seeker(NamedTuple):
    """How networks are found: under a corrected limit without those that failed, and the fastest of all."""

    choose: Callable[[float, Sequence[Candidate]], Candidate | None]
    fastest: Callable[[], Candidate | None]


class OverBudget(PromiseBroken):
    """No network was measured to keep the budget; `tried` are those that were measured."""

    def __init__(self, sentence: str, tried: Sequence[Candidate]) -> None:
        super().__init__(sentence)
        self.tried = tuple(tried)


def time_network(
    measure: Measure,
    skeleton: Skeleton,
    genotype: Genotype,
    demands: Demands,
    max_noise_floor: float,
    is_surprise: bool = False,
) -> Measured:
    """The latency of a network, on a machine that is quiet enough to say it.

    A close call is timed twice, and the slower figure counts; so is what keeps the budget as a surprise: among several
    networks that were predicted to miss it, the one that was measured too fast is the first to fit.
    """

    percentile = demands.percentile

    def measure_once() -> Measured:
        measured = measure_quietly(lambda: measure(skeleton, genotype), [percentile], max_noise_floor)
        return certain(measured, percentile, max_noise_floor)

    measured = measure_once()
    surely_ms = measured.at(percentile) * (1 + _CLOSE_FLOORS * measured.noise_at(percentile))
    if measured.at(percentile) <= demands.budget_ms and (demands.budget_ms < surely_ms or is_surprise):
        measured = max(measured, measure_once(), key=lambda one: one.at(percentile))
    return measured


def measure_candidate(
    candidate: Candidate, limit_ms: float, demands: Demands, measure: Measure, max_noise_floor: float
) -> Candidate:
    """A network that was sought under a limit, measured against the budget."""
    skeleton, is_surprise = candidate.target.skeleton, candidate.predicted.ms > limit_ms
    measured = time_network(measure, skeleton, candidate.genotype, demands, max_noise_floor, is_surprise)
    fits = measured.keeps(demands.budget_ms, demands.percentile)
    return replace(candidate, limit_ms=limit_ms, measured=measured, fits=fits)


def certify(
    seeker: Seeker, demands: Demands, measure: Measure, max_rounds: int, max_noise_floor: float, fills: bool = True
) -> Certified:
    """The best network that is measured at or under the budget; OverBudget when none is.

    With `fills` the budget is used up as far as that pays for a measurement; without, the first that fits will do.
    """
    search = _Search(demands, measure, max_noise_floor)
    factor = 1.0
    for _ in range(1 + max_rounds):
        candidate = seeker.choose(factor, search.tight)
        if candidate is None or search.knows(candidate):
            break
        done = search.try_out(candidate, factor)
        if search.spares(done) and not (fills and search.has_slack(done)):
            break
        factor = search.next_factor(done)
    if search.best is None:
        fastest = seeker.fastest()
        if fastest is not None and not search.knows(fastest):
            search.try_out(fastest, 1.0)
    if search.best is None:
        raise OverBudget(_explain(demands, search.tried), search.tried)
    return Certified(search.best, tuple(search.tried), search.corrected(search.best))


class _Search:
    """What has been measured so far."""

    def __init__(self, demands: Demands, measure: Measure, max_noise_floor: float) -> None:
        self.demands, self._measure, self._max_noise_floor = demands, measure, max_noise_floor
        self.tried: list[Candidate] = []
        self.best: Candidate | None = None

    @property
    def tight(self) -> list[Candidate]:
        """Those that miss the budget, or keep it with too little to spare."""
        return [one for one in self.tried if not self.spares(one)]

    def spares(self, done: Candidate) -> bool:
        return done.timing.spares(self.demands.budget_ms, self.demands.percentile)

    def knows(self, candidate: Candidate) -> bool:
        return any(one.identity == candidate.identity for one in self.tried)

    def try_out(self, candidate: Candidate, factor: float) -> Candidate:
        limit_ms = self._plain_limit(candidate) * factor
        done = measure_candidate(candidate, limit_ms, self.demands, self._measure, self._max_noise_floor)
        self.tried.append(done)
        # A later network with enough to spare was sought under a looser limit, or nothing spared as much before.
        if self.spares(done) or (done.fits and self.best is None):
            self.best = done
        return done

    def has_slack(self, done: Candidate) -> bool:
        aimed_ms = done.timing.leaving_drift(self.demands.budget_ms)
        return done.timing.at(self.demands.percentile) < (1 - _LEAST_SLACK) * aimed_ms

    def corrected(self, done: Candidate) -> float:
        """The factor on predicted limits under which networks like this one take the budget, or a little less."""
        misses = len(self.tight)
        aim = 1 - _AIM_STEP * (2 ** (misses - 1) - 1) if misses else 1.0
        aimed_ms = max(aim, 0.0) * done.timing.leaving_drift(self.demands.budget_ms)
        measured_ms = done.timing.at(self.demands.percentile)
        # A poor calibration can predict less than nothing for a tiny network; then the error is taken as a shift.
        cost_ms = done.target.latency.of(done.genotype)
        limit_ms = cost_ms * aimed_ms / measured_ms if cost_ms > 0 else cost_ms + aimed_ms - measured_ms
        return limit_ms / self._plain_limit(done)

    def next_factor(self, done: Candidate) -> float:
        """The corrected factor, or the middle where it leaves the range between what spared enough and what did not."""
        sparing = [self._factor(one) for one in self.tried if self.spares(one)]
        tight = [self._factor(one) for one in self.tight]
        factor = self.corrected(done)
        if sparing and tight and not max(sparing) < factor < min(tight):
            return (max(sparing) + min(tight)) / 2
        return factor

    def _factor(self, tried: Candidate) -> float:
        assert tried.limit_ms is not None
        return tried.limit_ms / self._plain_limit(tried)

    def _plain_limit(self, candidate: Candidate) -> float:
        return candidate.target.predictor.limit_ms(self.demands.budget_ms, self.demands.percentile)


def _explain(demands: Demands, tried: Sequence[Candidate]) -> str:
    budget = f"a p{demands.percentile} latency of {demands.budget_ms:g} ms cannot be kept"
    if not tried:
        return f"{budget}: no network keeps the other limits"
    best = min(tried, key=lambda one: one.timing.at(demands.percentile))
    return (
        f"{budget}: the best of {len(tried)} measured networks took "
        f"{best.timing.at(demands.percentile):.3g} ms (predicted p50 {best.predicted.ms:.3g} ms, "
        f"noise floor {best.timing.noise_floor:.1%}); "
        "raise --budget-ms, or make the network smaller with [target] cells and channels"
    )
