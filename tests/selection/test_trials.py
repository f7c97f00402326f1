"""Trials: spread out first, then what may be best; a ledger that is read back; failures that are named."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.console import progress_bar
from pipeline.errors import PromiseBroken
from pipeline.selection.pool import Pool, feasible_networks
from pipeline.selection.sources import Measure, Sources
from pipeline.selection.structure import counts_and_depths, effective, overlap
from pipeline.selection.trials import FEWEST_TRIALS, Ledger, TrainingBudget, gather_evidence, spread_out
from pipeline.space.genotype import Genotype
from pipeline.space.sampling import random_genotype
from pipeline.space.spaces import space_named
from tests.selection.fakes import DARTS, SMALL, targets

SPACE = space_named("nasbench201")
NAMES = SPACE.kinds[0].operations


def random_cells(count: int, seed: int = 0) -> tuple[Genotype, ...]:
    generator = np.random.default_rng(seed)
    return tuple(random_genotype("nasbench201", generator) for _ in range(count))


def convolutions(genotype: Genotype) -> float:
    counted = dict(zip(NAMES, counts_and_depths(genotype).tolist(), strict=False))
    return counted["nor_conv_3x3"] + 0.5 * counted["nor_conv_1x1"]


def ticking(seconds: float) -> Callable[[], float]:
    """A clock that is `seconds` later at every look."""
    now = iter(np.arange(0.0, 1e6, seconds))
    return lambda: float(next(now))


# it is right but for what the length of a name adds
SOURCES = Sources([Measure(("hint",), lambda genotype: [convolutions(genotype) + 0.1 * (len(str(genotype)) % 7)])])


def test_evidence_finds_the_best_networks_and_trains_as_many_as_the_minutes_allow(tmp_path: Path) -> None:
    pool = Pool(SPACE, random_cells(60))
    ledger = Ledger(tmp_path / "evidence.jsonl", "one", lambda one: -convolutions(one), ticking(2.0))
    evidence = gather_evidence(pool, SOURCES, ledger, TrainingBudget(minutes=1.0, at_most=100))
    assert len(ledger.trained) == 30  # two seconds each
    best = sorted(map(convolutions, pool.networks))[-5:]
    assert sorted(map(convolutions, ledger.trained))[-5:] == best
    predicted = evidence.predict(SOURCES.look(pool.networks))
    assert np.corrcoef(predicted, [convolutions(one) for one in pool.networks])[0, 1] > 0.8


def test_the_fewest_trials_are_made_however_short_the_time_and_never_more_than_there_are(tmp_path: Path) -> None:
    for name, cells, expected in (("few", 40, FEWEST_TRIALS), ("all", 6, 6)):
        pool = Pool(SPACE, random_cells(cells))
        ledger = Ledger(tmp_path / f"{name}.jsonl", "one", lambda one: -convolutions(one), ticking(100.0))
        gather_evidence(pool, SOURCES, ledger, TrainingBudget(minutes=0.01, at_most=100))
        assert len(ledger.trained) == len({effective(one) for one in ledger.trained}) == expected


def test_the_bar_of_fewer_trials_than_were_planned_ends_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bar = progress_bar()
    monkeypatch.setattr("pipeline.selection.trials.progress_bar", lambda: bar)
    ledger = Ledger(tmp_path / "a", "one", lambda one: -convolutions(one), ticking(0.1))
    gather_evidence(Pool(SPACE, random_cells(6)), SOURCES, ledger, TrainingBudget(minutes=1.0, at_most=32))
    assert bar.tasks[0].finished and (bar.tasks[0].completed, bar.tasks[0].total) == (6, 6)


def test_a_ledger_is_read_back_and_another_identity_starts_anew(tmp_path: Path) -> None:
    path, pool = tmp_path / "evidence.jsonl", Pool(SPACE, random_cells(30))
    trained: list[Genotype] = []

    def train(one: Genotype) -> float:
        trained.append(one)
        return -convolutions(one)

    first = Ledger(path, "one", train, ticking(2.0))
    gather_evidence(pool, SOURCES, first, TrainingBudget(0.4, 100))
    first.close()
    assert len(trained) == 12
    path.write_text("\n".join(path.read_text().splitlines()[:8]) + '\n{"step": 8, "geno')  # torn in the ninth line
    again = Ledger(path, "one", train, ticking(50.0))  # slower now; the plan is that of the first time
    gather_evidence(pool, SOURCES, again, TrainingBudget(0.4, 100))
    again.close()
    assert [one.record() for one in again.trained] == [one.record() for one in first.trained]
    assert again.losses == first.losses
    assert len(trained) == 12 + 5
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == list(range(13))
    other = Ledger(path, "another", train, ticking(2.0))
    gather_evidence(pool, SOURCES, other, TrainingBudget(0.4, 100))
    assert len(trained) == 12 + 5 + 12


def test_a_ledger_gives_no_network_the_loss_of_another(tmp_path: Path) -> None:
    """After a new search other networks may be chosen; what was trained of the old ones stays as far as they agree."""
    path, cells = tmp_path / "evidence.jsonl", random_cells(6)
    trained: list[Genotype] = []

    def train(one: Genotype) -> float:
        trained.append(one)
        return -convolutions(one)

    for asked in (cells[:4], [*cells[:2], *cells[4:]], [*cells[:2], *cells[4:]]):
        ledger = Ledger(path, "one", train, ticking(2.0))
        ledger.try_out(asked[:3], lambda note: None)
        ledger.try_out(asked[3:], lambda note: None)
        ledger.close()
        assert ledger.losses == [-convolutions(one) for one in asked]
        entries = [json.loads(line) for line in path.read_text().splitlines()][1:]
        assert [entry["genotype"] for entry in entries] == [one.record() for one in asked]
    assert trained == [*cells[:4], *cells[4:]]


def test_what_diverges_counts_as_worst_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = Pool(SPACE, random_cells(30))
    ledger = Ledger(
        tmp_path / "a", "one", lambda one: math.inf if convolutions(one) > 2 else -convolutions(one), ticking(2.0)
    )
    sparse = Sources([Measure(("sparse",), lambda one: [-convolutions(one)])])
    evidence = gather_evidence(pool, sparse, ledger, TrainingBudget(0.6, 100))
    assert "diverged and counts as the worst" in capsys.readouterr().err
    found = np.array([convolutions(one) for one in pool.networks])
    predicted = evidence.predict(sparse.look(pool.networks))
    assert predicted[found > 2].mean() < predicted[found <= 2].mean()
    hopeless = Ledger(tmp_path / "b", "one", lambda _: math.inf, ticking(2.0))
    with pytest.raises(PromiseBroken, match=r"all .* short trainings diverged"):
        gather_evidence(pool, SOURCES, hopeless, TrainingBudget(0.6, 100))


@pytest.mark.parametrize(("loss", "learned"), [(2.29, False), (2.2, True)])
def test_short_trainings_that_learned_nothing_tell_nothing_and_end_early(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], loss: float, learned: bool
) -> None:
    pool, sources = Pool(SPACE, random_cells(30)), Sources([Measure(("alpha",), lambda one: [convolutions(one)])])
    ledger = Ledger(tmp_path / "a", "one", lambda one: loss - 1e-4 * convolutions(one), ticking(2.0))
    evidence = gather_evidence(pool, sources, ledger, TrainingBudget(0.8, 100), math.log(10))
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "12 short trainings have learned nothing (least validation loss 2.29, guessing has 2.30)" in said
    ) != learned
    assert (len(ledger.trained), bool(evidence.standings())) == ((24, True) if learned else (12, False))
    assert evidence.weights[0] >= 0.5


def test_networks_that_are_spread_out_have_little_in_common() -> None:
    pool = random_cells(80)
    taken = spread_out(pool, 6)
    assert taken[0] is pool[0] and len({effective(one) for one in taken}) == 6

    def closest(cells: list[Genotype]) -> float:
        sets = [effective(one) for one in cells]
        return max(overlap(a, b) for i, a in enumerate(sets) for b in sets[:i])

    assert closest(taken) < closest(list(pool[:6]))
    assert len(spread_out([pool[0], pool[0]], 2)) == 1


def test_a_pool_keeps_the_limits_and_so_do_the_neighbours_tried_beside_it() -> None:
    (target,) = targets([SMALL])
    from pipeline.budget.targets import Demands

    limits = tuple(target.limits(Demands(1.2, 50)))
    networks = feasible_networks(DARTS, limits, 12, seed=0)
    assert len({str(one.record()) for one in networks}) == len(networks) >= 10
    around = Pool(DARTS, tuple(networks), limits).neighbours_of(networks[:3], each=2, seed=0)
    assert len(around) == 6
    for genotype in [*networks, *around]:
        assert limits[0].allows(target.latency.of(genotype))
    assert feasible_networks(DARTS, target.limits(Demands(1e-6, 50)), 5, seed=0) == []
    assert Pool(DARTS, tuple(networks)).neighbours_of(networks, 2, 0) == []


def test_idle_sources_are_not_asked() -> None:
    asked: list[Genotype] = []

    def measure(genotype: Genotype) -> list[float]:
        asked.append(genotype)
        return [1.0, 2.0]

    sources = Sources([Measure(("a", "b"), measure), Measure(("c",), lambda _: [3.0])])
    cell = random_cells(1)[0]
    assert sources.figures(cell) == [1.0, 2.0, 3.0] == sources.figures(cell)
    assert len(asked) == 1
    assert sources.without(["a", "b"]).figures(cell) == [0.0, 0.0, 3.0]
    assert len(asked) == 1
    assert sources.without(["a"]).figures(cell) == [1.0, 2.0, 3.0]


def test_minutes_that_are_too_few_for_the_fewest_trainings_are_said() -> None:
    assert TrainingBudget(5.0, 100).describe_time(30.0) == ", about 5.0 minutes in all"
    assert "about 8 minutes, more than the 1 asked for" in TrainingBudget(1.0, 100).describe_time(60.0)
