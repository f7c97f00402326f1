"""Refining the first network that fits: probabilities by their closed forms, and tries that never cost the budget."""

import math
from collections.abc import Callable
from statistics import NormalDist

import pytest

from pipeline.budget.targets import Demands
from pipeline.latency.budget_rule import Measured
from pipeline.selection.budgets import Outcome, Rules, best_seeker, select
from pipeline.selection.evolution import Evolution
from pipeline.selection.refinement import FitProbability, largest_gain
from pipeline.space.choices import Choices, choices_of
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.plan import Choice
from pipeline.space.skeleton import Skeleton
from tests.selection.fakes import DARTS, SMALL, FakeDevice, FakePredictor, make_chooser

OWN, SHARED = 0.1 / 1.959964, 0.1


def test_without_measurements_the_chance_is_that_of_both_errors() -> None:
    fit = FitProbability(0.1)
    assert fit.of(1.0) == 0.5
    assert fit.of(math.exp(-2 * math.hypot(OWN, SHARED))) == pytest.approx(NormalDist().cdf(2.0), abs=1e-6)
    assert fit.of(1.1) == pytest.approx(1 - fit.of(1 / 1.1))


def test_a_measurement_tells_of_networks_of_its_cost() -> None:
    fit = FitProbability(0.1)
    fit.learn(0.9, 0.9 * 1.2)
    # two normal variables, of whose sum one value is known
    weight = SHARED**2 / (SHARED**2 + OWN**2)
    left = SHARED**2 * (1 - weight) + OWN**2
    expected = -(math.log(0.9) + weight * math.log(1.2)) / math.sqrt(left)
    assert fit.of(0.9) == pytest.approx(NormalDist().cdf(expected), abs=1e-6)
    assert fit.of(0.05) == pytest.approx(FitProbability(0.1).of(0.05))
    for _ in range(200):
        fit.learn(1 / 1.2, 1.0)
    assert fit.of(1 / 1.2) == pytest.approx(0.5, abs=0.02)


class Pairs:
    """A score that no sum shows: pairs of equal operations, with a preference for separable convolutions."""

    def __init__(self) -> None:
        self.evaluated: list[Choices] = []

    def __call__(self, choices: Choices) -> float:
        self.evaluated.append(choices)
        names = [choice.operation for choice in sorted(choices)]
        return sum(a == b for a, b in zip(names[::2], names[1::2], strict=True)) + 0.1 * sum("sep" in n for n in names)


def choose(
    budget_ms: float, measure: Callable[[Skeleton, Genotype], Measured], tries: int = 5, evaluations: int = 200
) -> tuple[Outcome, Pairs]:
    score, demands, chooser = Pairs(), Demands(budget_ms, 50), make_chooser()
    rules = Rules(tries, max_noise_floor=0.05, evolution=Evolution(DARTS, score, evaluations, seed=0))
    return select(chooser, best_seeker(chooser, demands), demands, measure, rules), score


@pytest.mark.parametrize("share", [0.9, 1.0, 1.3])
def test_a_better_network_is_found_within_the_budget(share: float) -> None:
    """Whether the table says too much, the truth or too little."""
    device, budget_ms = FakeDevice(lambda ms: share * ms), 1.6
    outcome, score = choose(budget_ms, device)
    first = next(done for done in outcome.tried if done.fits)
    assert score(outcome.chosen.choices) >= score(first.choices) + 2
    assert outcome.chosen.timing.p50_ms <= budget_ms
    assert score(outcome.chosen.choices) == max(score(done.choices) for done in outcome.tried if done.fits)
    assert [one.verdict for one in outcome.tried].count("chosen") == 1
    genotypes = [str(done.genotype.record()) for done in outcome.tried]
    assert len(set(genotypes)) == len(genotypes)


def test_a_network_named_as_a_start_is_measured_where_it_is_judged_better() -> None:
    """One that no few changes lead to, and that fits with ease: separable convolutions of the first two inputs."""
    genes = [["sep_conv_3x3", 0], ["sep_conv_3x3", 1]] * 4
    named = genotype_from_record({"space": "darts", "normal": genes, "reduce": genes})
    demands, chooser = Demands(1e3, 50), make_chooser()
    wanted = choices_of(DARTS, named)
    for starts in ((), (wanted,)):
        evolution = Evolution(DARTS, lambda choices: float(choices == wanted), 20, seed=0)
        rules = Rules(5, max_noise_floor=0.05, evolution=evolution, starts=starts)
        outcome = select(chooser, best_seeker(chooser, demands), demands, FakeDevice(lambda ms: ms), rules)
        assert (outcome.chosen.genotype == named) is bool(starts)


def cell_of(operation: str) -> Genotype:
    genes = [[operation, 0], [operation, 1]] * 4
    return genotype_from_record({"space": "darts", "normal": genes, "reduce": genes})


@pytest.mark.parametrize(("predicted_share", "is_tried"), [(1.02, True), (1.1, True), (1.5, False)])
def test_a_long_shot_is_tried_when_nothing_likely_is_better(predicted_share: float, is_tried: bool) -> None:
    """A network that is predicted to miss the budget and keeps it; one that is likely to fit comes before it."""
    long_shot, likely = cell_of("sep_conv_3x3"), cell_of("skip_connect")
    judged = {choices_of(DARTS, long_shot): 1.0, choices_of(DARTS, likely): 0.01}
    demands, chooser = Demands(FakePredictor(SMALL).predict(long_shot).ms / predicted_share, 50), make_chooser()
    asked: list[Genotype] = []

    def measure(skeleton: Skeleton, genotype: Genotype) -> Measured:
        asked.append(genotype)
        predicted_ms = FakePredictor(skeleton).predict(genotype).ms
        ms = 0.9 * demands.budget_ms if genotype == long_shot else predicted_ms
        return Measured(ms, ms, ms, 0.0)

    evolution = Evolution(DARTS, lambda choices: judged.get(choices, 0.0), 20, seed=0)
    rules = Rules(5, max_noise_floor=0.05, evolution=evolution, starts=tuple(judged))
    outcome = select(chooser, best_seeker(chooser, demands), demands, measure, rules)
    assert (outcome.chosen.genotype == long_shot) is is_tried
    assert (long_shot in asked) is is_tried
    if predicted_share == 1.1:
        assert asked.index(likely) < asked.index(long_shot)


def test_no_more_measurements_than_allowed() -> None:
    device = FakeDevice(lambda ms: ms)
    outcome, _ = choose(1.6, device, tries=1)
    assert len(outcome.tried) == 2


def test_a_device_that_lies_about_every_rival_leaves_the_first_network() -> None:
    calls: list[Genotype] = []

    def measure(skeleton: Skeleton, genotype: Genotype) -> Measured:
        calls.append(genotype)
        ms = FakePredictor(SMALL).predict(genotype).ms * (0.9 if len(calls) == 1 else 3.0)
        return Measured(ms, ms, ms, 0.0)

    outcome, _ = choose(1.6, measure)
    assert outcome.chosen is outcome.tried[0]
    assert [done.fits for done in outcome.tried] == [True] + [False] * (len(outcome.tried) - 1)
    assert len(outcome.tried) > 2
    assert len({str(genotype.record()) for genotype in calls}) == len(calls)


def test_a_gain_is_weighed_by_its_probability() -> None:
    first, second, third = (frozenset({Choice("cell", edge, "none")}) for edge in range(3))
    chances = {first: 0.9, second: 0.5, third: 1.0}
    assert largest_gain({first: 0.5, second: 0.6, third: 0.1}, 0.1, chances.__getitem__) == first
    assert largest_gain({first: 0.5, second: 0.9, third: 0.1}, 0.1, chances.__getitem__) == second
    assert largest_gain({third: 0.1}, 0.1, chances.__getitem__) is None


def test_what_cannot_be_measured_is_no_rival() -> None:
    floors = [0.01, *[0.5] * 20]
    outcome, _ = choose(1.6, FakeDevice(lambda ms: 0.8 * ms, floors))
    assert len(outcome.tried) == 1
