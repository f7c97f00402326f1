"""Evidence: who is heard beside a search and without one, and what size and structure are worth."""

import numpy as np
import pytest

from pipeline.selection.earned_weights import place_score
from pipeline.selection.evidence import Evidence, Looks
from pipeline.selection.standing import tau_of
from pipeline.space.choices import Choices
from pipeline.space.plan import Choice

RNG = np.random.default_rng(0)


def choices(*operations: str) -> Choices:
    return frozenset(Choice("cell", edge, operation) for edge, operation in enumerate(operations))


def looks_of(figures: np.ndarray, seed: int = 1) -> Looks:
    """Networks whose structure says nothing: counts drawn at random, no choices in common."""
    rng = np.random.default_rng(seed)
    return Looks(figures, rng.normal(size=(len(figures), 3)), [choices(f"{seed}-{row}") for row in range(len(figures))])


def heard_scores(values: np.ndarray) -> np.ndarray:
    return np.array([place_score(values, value) for value in values])


def test_the_search_is_heard_although_short_trainings_differ_by_chance_and_structure_is_not() -> None:
    rng = np.random.default_rng(9)
    looks = looks_of(rng.normal(size=(40, 2)))
    losses = 0.1 * looks.figures[:, 0] - looks.counts[:, 0]  # a little against the search, and by the structure
    assert tau_of(looks.figures[:, 0], -losses) < 0
    heard = Evidence(("supernet", "naswot"), looks, losses.tolist(), looks.figures)
    assert heard.weights[0] == 0.5 and heard.process is None
    expected = 0.5 * heard_scores(looks.figures[:, 0]) + heard.weights[1] * heard_scores(looks.figures[:, 1])
    np.testing.assert_allclose(heard.predict(looks).mean, expected, atol=1e-12)
    unsearched = Evidence(("synflow", "naswot"), looks, losses.tolist(), looks.figures)
    assert unsearched.process is not None
    assert unsearched.weights[0] == 0.0 and unsearched.process.deviation > 0.3


def test_a_short_search_earns_its_weight_like_all_else() -> None:
    rng = np.random.default_rng(9)
    looks = looks_of(rng.normal(size=(40, 2)))
    wrong, right = ("alpha", "naswot"), ("naswot", "alpha")
    losses = (looks.figures[:, 0] - looks.figures[:, 1]).tolist()  # against the first, with the second
    for names in (wrong, right):
        weights = Evidence(names, looks, losses, looks.figures, trusts_search=False).weights
        assert weights[0] == 0.0 and weights[1] > 0.3
    assert Evidence(right, looks, losses, looks.figures).weights[1] >= 0.5, "a long one has it"


@pytest.mark.parametrize("trusts_search", [True, False])
def test_without_short_trainings_the_search_is_believed(trusts_search: bool) -> None:
    figures = np.random.default_rng(9).normal(size=(40, 2))
    looks = looks_of(figures)
    untrained = Evidence(("alpha", "supernet"), looks.part([]), [], figures, trusts_search)
    found = untrained.predict(looks)
    np.testing.assert_allclose(
        found.mean, 0.5 * (heard_scores(figures[:, 0]) + heard_scores(figures[:, 1])), atol=1e-12
    )
    assert untrained.standings() == [] and not found.deviation.any()


def test_a_good_source_predicts_networks_that_were_not_trained() -> None:
    rng = np.random.default_rng(6)
    quality = rng.normal(size=200)
    figures = np.stack([np.exp(quality + 0.4 * rng.normal(size=200)), rng.normal(size=200)], axis=1)
    looks = looks_of(figures)
    evidence = Evidence(("good", "noise"), looks.part(range(30)), (-quality[:30]).tolist(), figures)
    predicted = evidence.predict(looks.part(range(30, 200))).mean
    assert tau_of(predicted, quality[30:]) > 0.65
    rows = {row.source: row for row in evidence.standings()}
    assert rows["good"].low > 0.4 and rows["noise"].low < 0.1
    assert rows["good"].tau == pytest.approx(tau_of(figures[:30, 0], quality[:30]))
    assert rows["all together"].tau > 0.5 and abs(rows["structure"].tau) < 0.4


def test_structure_is_learned_where_no_source_helps() -> None:
    rng = np.random.default_rng(7)
    counts = rng.integers(0, 4, size=(120, 3)).astype(float)
    quality = counts @ [1.0, -0.5, 0.2]
    looks = Looks(rng.normal(size=(120, 1)), counts, [choices(str(row)) for row in range(120)])
    evidence = Evidence(("noise",), looks.part(range(40)), (-quality[:40]).tolist(), looks.figures)
    predicted = evidence.predict(looks.part(range(40, 120)))
    assert tau_of(predicted.mean, quality[40:]) > 0.7
    known = evidence.predict(looks.part(range(40)))
    assert known.deviation.mean() < predicted.deviation.mean()


def test_size_decides_where_short_trainings_leave_nothing_else() -> None:
    """Sources that rank the wrong way round, and a structure that says nothing: all networks were equal then."""
    quality = np.linspace(-1.0, 1.0, 40)
    looks = looks_of(np.column_stack([1e6 * np.exp(-quality), -quality]))
    flat = looks._replace(counts=np.zeros((40, 1)))
    evidence = Evidence(("macs", "noise"), flat.part(range(0, 40, 2)), (-quality[::2]).tolist(), looks.figures, False)
    assert not evidence.weights.any()
    assert tau_of(evidence.predict(flat.part(range(1, 40, 2))).mean, -quality[1::2]) == pytest.approx(1.0)


def test_without_a_search_short_trainings_tell_networks_of_one_size_apart_and_larger_is_better() -> None:
    """They prefer small networks here; neither a source nor the structure learned from them may overrule size."""
    rng = np.random.default_rng(9)
    log_size, good = rng.normal(scale=0.5, size=60), rng.normal(size=60)
    looks = Looks(
        np.column_stack([1e6 * np.exp(log_size), good, -log_size]),
        np.column_stack([log_size, good]),
        [choices(str(row)) for row in range(60)],
    )
    losses = 2.0 * log_size - good
    evidence = Evidence(("macs", "good", "small"), looks, losses.tolist(), looks.figures, trusts_search=False)
    within = evidence.predict_within_size(looks).mean
    assert tau_of(within, good) > 0.7 and abs(tau_of(within, log_size)) < 0.2
    expected = within + 3.0 * (log_size - log_size.mean())
    assert evidence.predict(looks).mean == pytest.approx(expected)


@pytest.mark.parametrize(("count", "is_refuted"), [(40, True), (8, False)])
def test_a_finding_that_is_the_wrong_way_round_within_a_size_loses_its_trust(count: int, is_refuted: bool) -> None:
    """Short trainings that prefer small networks refute nothing by that: the other finding likes large ones."""
    rng = np.random.default_rng(11)
    log_size, good = rng.normal(scale=0.5, size=count), rng.normal(size=count)
    noise = rng.normal(scale=0.3, size=(2, count))
    looks = looks_of(np.column_stack([1e6 * np.exp(log_size), -good + noise[0], 4.0 * log_size + good + noise[1]]))
    losses = 4.0 * log_size - good
    evidence = Evidence(("macs", "alpha", "supernet"), looks, losses.tolist(), looks.figures)
    assert tau_of(looks.figures[:, 2], -losses) < 0, "as the short trainings have it"
    assert evidence.refuted == (["alpha"] if is_refuted else [])
    assert evidence.weights[1] == (0.0 if is_refuted else 0.5) and evidence.weights[2] >= 0.5
    assert evidence.goes_by_search


def test_a_search_all_of_whose_findings_are_refuted_leaves_the_choice_to_size_and_short_trainings() -> None:
    rng = np.random.default_rng(12)
    good, log_size = rng.normal(size=40), rng.normal(scale=0.5, size=40)
    looks = looks_of(np.column_stack([1e6 * np.exp(log_size), -good]))
    evidence = Evidence(("macs", "alpha"), looks, (-good).tolist(), looks.figures)
    assert evidence.refuted == ["alpha"] and not evidence.goes_by_search and evidence.process is not None


def test_beside_a_trusted_search_larger_is_better_by_less_and_short_trainings_say_nothing_of_size() -> None:
    rng = np.random.default_rng(10)
    log_size, alpha = rng.normal(scale=0.5, size=60), rng.normal(size=60)
    looks = looks_of(np.column_stack([1e6 * np.exp(log_size), alpha]))
    for trained in (0, 60):
        losses = (-alpha - 2.0 * log_size)[:trained].tolist()
        evidence = Evidence(("macs", "alpha"), looks.part(range(trained)), losses, looks.figures)
        assert evidence.weights[0] < 0.05 and evidence.weights[1] >= 0.5
        expected = evidence.predict_within_size(looks).mean + 1.0 * (log_size - log_size.mean())
        assert evidence.predict(looks).mean == pytest.approx(expected)
