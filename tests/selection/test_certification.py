"""The certificate's logic on fake devices: one that is 10 % over, one that never fits, one too noisy, one too fast."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.budget.targets import Demands, make_targets
from pipeline.errors import PromiseBroken
from pipeline.latency.budget_rule import Measured
from pipeline.latency.statistics import Interval
from pipeline.selection.budgets import argmax_seeker, best_seeker
from pipeline.selection.certification import OverBudget, certify, measure_candidate, time_network
from pipeline.selection.chooser import Chooser
from pipeline.space.extremes import cheapest_genotype, costliest_genotype
from tests.selection.fakes import DARTS, SMALL, FakeDevice, FakePredictor, make_chooser
from tests.selection.spaces import random_scores

ROUNDS, FLOOR = 5, 0.05
LEFT = 0.98  # of a budget, for the drift of the machine until export


def middle_budget(chooser: Chooser, share: float = 0.5) -> float:
    costs = chooser.targets[0].latency
    low, high = costs.of(cheapest_genotype(DARTS, costs)), costs.of(costliest_genotype(DARTS, costs))
    return low + share * (high - low)


def test_an_exact_prediction_is_certified_at_once() -> None:
    chooser = make_chooser()
    demands = Demands(middle_budget(chooser, 0.4), 50)
    device = FakeDevice(lambda ms: 0.97 * ms)
    certified = certify(best_seeker(chooser, demands), demands, device, ROUNDS, FLOOR)
    expected = chooser.choose(demands)
    assert expected is not None
    assert certified.tried[0].genotype == expected.genotype
    assert certified.best.timing.p50_ms <= demands.budget_ms
    assert certified.tried[0].limit_ms == demands.budget_ms


def test_ten_percent_over_tightens_the_limit_and_is_optimal_under_it() -> None:
    chooser = make_chooser()
    demands = Demands(middle_budget(chooser, 0.3), 50)
    certified = certify(best_seeker(chooser, demands), demands, FakeDevice(lambda ms: 1.1 * ms), ROUNDS, FLOOR)
    assert [done.fits for done in certified.tried] == [False, True]
    assert certified.tried[1].limit_ms == pytest.approx(LEFT * demands.budget_ms / 1.1, rel=1e-12)
    best = chooser.choose(Demands(LEFT * demands.budget_ms / 1.1, 50))
    assert best is not None
    assert certified.best.score == pytest.approx(best.score, abs=1e-9)
    assert certified.best.timing.p50_ms <= demands.budget_ms


def test_a_percentile_is_measured_and_kept() -> None:
    chooser = make_chooser()
    demands = Demands(middle_budget(chooser, 0.5), 95)
    certified = certify(best_seeker(chooser, demands), demands, FakeDevice(lambda ms: 1.04 * ms), ROUNDS, FLOOR)
    assert certified.tried[0].limit_ms == pytest.approx(demands.budget_ms / 1.25)
    assert 0.8 * demands.budget_ms < certified.best.timing.p95_ms <= demands.budget_ms


def test_a_fast_device_loosens_the_limit_so_that_the_budget_is_used() -> None:
    chooser = make_chooser()
    demands = Demands(middle_budget(chooser, 0.25), 50)
    certified = certify(best_seeker(chooser, demands), demands, FakeDevice(lambda ms: 0.8 * ms), ROUNDS, FLOOR)
    assert len(certified.tried) >= 2
    assert certified.best is certified.tried[-1]
    assert certified.best.score > certified.tried[0].score
    best = chooser.choose(Demands(LEFT * demands.budget_ms / 0.8, 50))
    assert best is not None
    assert certified.best.score == pytest.approx(best.score, abs=1e-9)


def test_loosening_too_far_falls_back_to_what_fitted() -> None:
    """Fast at first, then over budget: a device with a step in it."""
    chooser = make_chooser()
    budget = middle_budget(chooser, 0.25)
    demands = Demands(budget, 50)
    device = FakeDevice(lambda ms: 0.8 * ms if ms <= budget else 1.2 * ms)
    certified = certify(best_seeker(chooser, demands), demands, device, ROUNDS, FLOOR)
    assert [done.fits for done in certified.tried[:2]] == [True, False]
    assert len(certified.tried) == 1 + ROUNDS and certified.best is certified.tried[0]


def test_after_loosening_too_far_the_next_limit_lies_between() -> None:
    """Half of the way to the looser limit the device is still fast."""
    chooser = make_chooser()
    budget = middle_budget(chooser, 0.25)
    demands = Demands(budget, 50)
    device = FakeDevice(lambda ms: 0.8 * ms if ms <= 1.12 * budget else 1.2 * ms)
    certified = certify(best_seeker(chooser, demands), demands, device, ROUNDS, FLOOR)
    assert [done.fits for done in certified.tried[:2]] == [True, False]
    assert certified.tried[2].limit_ms == pytest.approx(budget * np.sqrt(1.25), rel=0.02)
    assert certified.best.fits and certified.best.score > certified.tried[0].score


def test_operations_that_are_merged_leave_room_that_is_used() -> None:
    """The programme counts each of them; what is predicted and measured is a third less."""

    class Merging(FakePredictor):
        def predict(self, genotype):
            ms = super().predict(genotype).ms / 1.5
            return super().predict(genotype)._replace(ms=ms)

    scores = random_scores(DARTS, np.random.default_rng(0), tied=False)
    chooser = Chooser(DARTS, scores, make_targets([SMALL], Merging), 0.9)
    demands = Demands(middle_budget(chooser, 0.1), 50)
    certified = certify(best_seeker(chooser, demands), demands, FakeDevice(lambda ms: ms / 1.5), ROUNDS, FLOOR)
    assert certified.tried[0].timing.p50_ms < 0.7 * demands.budget_ms
    assert certified.best.timing.p50_ms > 0.9 * demands.budget_ms


def test_what_keeps_the_budget_with_nothing_to_spare_gives_way_to_one_that_spares() -> None:
    """Measured as predicted: the first network is within 2 % of the budget, and the second aims below that."""
    chooser = make_chooser()
    pick = chooser.choose(Demands(middle_budget(chooser, 0.4), 50))
    assert pick is not None
    demands = Demands(1.01 * pick.predicted.ms, 50)
    certified = certify(best_seeker(chooser, demands), demands, FakeDevice(lambda ms: ms), ROUNDS, FLOOR)
    first, *_ = certified.tried
    assert first.fits and first.timing.p50_ms > LEFT * demands.budget_ms
    assert 0.9 * demands.budget_ms < certified.best.timing.p50_ms <= LEFT * demands.budget_ms


def test_what_keeps_the_budget_with_nothing_to_spare_is_taken_where_nothing_spares() -> None:
    chooser = make_chooser()
    demands = Demands(middle_budget(chooser, 0.4), 50)
    device = FakeDevice(lambda ms: 0.99 * demands.budget_ms)
    certified = certify(best_seeker(chooser, demands), demands, device, ROUNDS, FLOOR)
    assert certified.best is certified.tried[0] and certified.best.fits and len(certified.tried) == 1 + ROUNDS


def test_near_misses_do_not_go_on_for_ever() -> None:
    """Every network is measured just over the budget until the limit is 3 % lower: plain ratios would creep."""
    chooser = make_chooser()
    budget = middle_budget(chooser, 0.25)
    demands = Demands(budget, 50)
    device = FakeDevice(lambda ms: 1.0001 * budget if ms > 0.97 * budget else ms)
    certified = certify(best_seeker(chooser, demands), demands, device, ROUNDS, FLOOR)
    assert certified.best.timing.p50_ms <= budget
    assert 2 <= len(certified.tried) <= 4
    assert certified.best.predicted.ms > 0.9 * budget  # and not the fastest network, for want of rounds


def test_every_miss_aims_lower_than_the_measured_bias_asks() -> None:
    chooser = make_chooser()
    demands = Demands(middle_budget(chooser, 0.25), 50)
    device = FakeDevice(lambda ms: 1.0001 * demands.budget_ms)
    with pytest.raises(OverBudget) as error:
        certify(best_seeker(chooser, demands), demands, device, ROUNDS, FLOOR)
    *rounds, _ = error.value.tried
    corrected = [demands.budget_ms * tried.predicted.ms / tried.timing.p50_ms for tried in rounds]
    aims = [(now.limit_ms or 0.0) / plain for now, plain in zip(rounds[1:], corrected[:-1], strict=True)]
    assert aims == pytest.approx([LEFT * aim for aim in (1.0, 0.99, 0.97, 0.93, 0.85)], rel=1e-12)


def test_never_fitting_is_proven_with_the_fastest_network() -> None:
    chooser = make_chooser()
    demands = Demands(middle_budget(chooser, 0.5), 50)
    device = FakeDevice(lambda ms: 2 * demands.budget_ms + ms)
    with pytest.raises(OverBudget) as error:
        certify(best_seeker(chooser, demands), demands, device, ROUNDS, FLOOR)
    assert error.value.exit_code == 3
    costs = chooser.targets[0].latency
    fastest = cheapest_genotype(DARTS, costs)
    assert costs.of(device.calls[-1]) == pytest.approx(costs.of(fastest), rel=1e-12)
    best_ms = 2 * demands.budget_ms + costs.of(fastest)
    assert f"{best_ms:.3g} ms" in str(error.value)
    assert len(error.value.tried) == len(device.calls) == len({str(g.record()) for g in device.calls})


def test_a_budget_that_is_predicted_infeasible_is_still_measured() -> None:
    chooser = make_chooser()
    demands = Demands(0.98 * middle_budget(chooser, 0.0), 50)
    certified = certify(best_seeker(chooser, demands), demands, FakeDevice(lambda ms: 0.95 * ms), ROUNDS, FLOOR)
    assert len(certified.tried) == 1
    assert certified.best.fits


def test_the_number_of_rounds_is_kept() -> None:
    chooser = make_chooser()
    demands = Demands(middle_budget(chooser, 0.5), 50)
    device = FakeDevice(lambda ms: 1.0001 * demands.budget_ms)
    with pytest.raises(OverBudget):
        certify(best_seeker(chooser, demands), demands, device, max_rounds=2, max_noise_floor=FLOOR)
    assert len(device.calls) == 3 + 1  # first, two corrections, and the fastest


def test_noise_is_measured_again_and_then_refused() -> None:
    chooser = make_chooser()
    demands = Demands(middle_budget(chooser, 0.5), 50)
    calm_at_last = FakeDevice(lambda ms: 0.99 * ms, [0.2, 0.3, 0.04])
    certified = certify(best_seeker(chooser, demands), demands, calm_at_last, ROUNDS, FLOOR)
    assert certified.tried[0].timing.noise_floor == 0.04
    loud = FakeDevice(lambda ms: 0.99 * ms, [0.2, 0.3, 0.06, 0.3, 0.2, 0.4, 0.01])
    with pytest.raises(PromiseBroken, match=r"6\.0% at best where"):
        certify(best_seeker(chooser, demands), demands, loud, ROUNDS, FLOOR)
    assert len(loud.calls) == 6


def test_argmax_is_measured_and_refused_when_it_is_over() -> None:
    chooser = make_chooser()
    argmax = chooser.choose(Demands(1e6, 50))
    assert argmax is not None
    for over, fits in ((0.9, True), (1.3, False)):
        demands = Demands(argmax.predicted.ms / over, 50)
        seeker = argmax_seeker(chooser, demands, argmax.genotype)
        device = FakeDevice(lambda ms: ms)
        if fits:
            assert certify(seeker, demands, device, ROUNDS, FLOOR).best.genotype == argmax.genotype
        else:
            with pytest.raises(OverBudget, match=f"{argmax.predicted.ms:.3g} ms"):
                certify(seeker, demands, device, ROUNDS, FLOOR)
        assert len(device.calls) == 1


def test_a_prediction_below_zero_is_corrected_by_a_shift() -> None:
    """A table with a large negative constant: every prediction is negative, the device is as it is."""
    chooser = make_chooser()
    target = chooser.targets[0]
    off = middle_budget(chooser, 1.0)
    shifted = replace(target, predictor=Shifted(off), latency=Shifted(off).costs())
    low = Chooser(DARTS, random_scores(DARTS, np.random.default_rng(0), tied=False), [shifted], 0.9)
    demands = Demands(middle_budget(chooser, 0.25), 50)
    certified = certify(best_seeker(low, demands), demands, FakeDevice(lambda ms: ms), ROUNDS, FLOOR)
    assert [done.fits for done in certified.tried[:2]] == [False, True]
    assert certified.tried[1].limit_ms == pytest.approx(LEFT * demands.budget_ms - off, abs=1e-9)
    assert 0.9 * demands.budget_ms < certified.best.timing.p50_ms <= LEFT * demands.budget_ms


class Shifted(FakePredictor):
    def __init__(self, off_ms: float) -> None:
        super().__init__(SMALL)
        self._costs = self._costs._replace(fixed=self._costs.fixed - off_ms)


@pytest.mark.parametrize(("first_share", "measured_twice"), [(0.99, True), (0.979, False), (1.01, False)])
def test_a_close_call_is_measured_twice_and_the_slower_counts(first_share: float, measured_twice: bool) -> None:
    """With a noise floor of 1 %, what fits by less than 2 % is close; the second time it takes 3 % longer."""
    chosen = make_chooser().choose(Demands(1e9, 50))
    assert chosen is not None
    factors = iter([first_share, 1.03 * first_share])
    device = FakeDevice(lambda ms: next(factors) * ms)
    measured = time_network(device, SMALL, chosen.genotype, Demands(chosen.predicted.ms, 50), FLOOR)
    assert len(device.calls) == 1 + measured_twice
    slower = 1.03 if measured_twice else 1.0
    assert measured.p50_ms == pytest.approx(slower * first_share * chosen.predicted.ms)


@pytest.mark.parametrize(("limit_share", "measured_twice"), [(1.01, False), (0.99, True)])
def test_what_keeps_the_budget_as_a_surprise_is_measured_twice(limit_share: float, measured_twice: bool) -> None:
    """Far below the budget at first, a quarter slower then: what was predicted to miss it was measured too fast."""
    chosen = make_chooser().choose(Demands(1e9, 50))
    assert chosen is not None
    predicted_ms = chosen.predicted.ms
    factors = iter([0.8, 1.05])
    device = FakeDevice(lambda ms: next(factors) * ms)
    done = measure_candidate(chosen, limit_share * predicted_ms, Demands(predicted_ms, 50), device, FLOOR)
    assert len(device.calls) == 1 + measured_twice and done.fits is not measured_twice


def test_a_close_call_is_one_by_the_interval_of_the_promised_percentile() -> None:
    """p95 is 5 % under its budget: far off by the noise floor of 1 %, close by an interval of 4 % on either side."""
    pick = make_chooser().choose(Demands(1e6, 50))
    assert pick is not None
    for tail, calls in ((None, 1), (Interval(0.912, 0.988), 2)):
        found = [Measured(0.5, 0.95, 1.0, 0.01, 0.5, tail)] * 2
        measured = time_network(lambda *_: found.pop(), SMALL, pick.genotype, Demands(1.0, 95), FLOOR)  # noqa: B023
        assert len(found) == 2 - calls and measured.p95_ms == 0.95
