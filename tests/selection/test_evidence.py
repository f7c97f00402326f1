"""Evidence: who is trusted unseen, what is earned on short trainings, and what size is worth."""

import numpy as np
import pytest

from pipeline.selection.earned_weights import normal_scores, place_score
from pipeline.selection.evidence import SIZE_SLOPE, Evidence
from pipeline.selection.standing import Array, tau_of


def heard_scores(values: Array) -> Array:
    return np.array([place_score(values, value) for value in values])


def untrained(names: tuple[str, ...], reference: Array, trusts_search: bool = True) -> Evidence:
    return Evidence(names, np.zeros((0, len(names))), [], reference, trusts_search)


@pytest.mark.parametrize("trusts_search", [True, False])
def test_without_short_trainings_a_long_search_or_else_two_proxies_decide_and_size(trusts_search: bool) -> None:
    rng = np.random.default_rng(9)
    log_size = rng.normal(scale=0.5, size=40)
    agreed = rng.normal(size=40)
    others = rng.normal(size=(40, 5)) + 2.0 * agreed[:, None]
    names = ("macs", "alpha", "supernet", "naswot", "expressivity", "synflow")
    figures = np.column_stack([1e6 * np.exp(log_size), others])
    evidence = untrained(names, figures, trusts_search)
    heard = [1, 2] if trusts_search else [3, 4]
    expected = sum(0.5 * heard_scores(figures[:, s]) for s in heard) + SIZE_SLOPE * (log_size - log_size.mean())
    assert evidence.predict(figures) == pytest.approx(np.asarray(expected).tolist())
    assert evidence.standings() == [] and evidence.doubted == []
    assert evidence.idle == (["naswot", "expressivity"] if trusts_search else ["alpha", "supernet"]) + ["synflow"]


def test_what_is_trusted_is_heard_although_short_trainings_differ_by_chance() -> None:
    rng = np.random.default_rng(9)
    figures = rng.normal(size=(40, 2))
    figures[:, 1] += 2.0 * figures[:, 0]
    losses = 0.1 * figures[:, 0] + rng.normal(size=40)  # a little against the search
    assert tau_of(figures[:, 0], -losses) < 0
    evidence = Evidence(("supernet", "naswot"), figures, losses.tolist(), figures)
    assert evidence.doubted == [] and evidence.weights[0] >= 0.5


def test_short_trainings_do_not_refute_proxies_which_they_are_a_worse_judge_than() -> None:
    """On NAS-Bench-Macro trainings from random weights rank against the truth, and against what is right."""
    figures = np.random.default_rng(3).normal(size=(40, 1))
    assert Evidence(("naswot",), figures, figures[:, 0].tolist(), figures, False).weights.tolist() == [0.5]


def test_a_short_search_earns_its_weight_like_all_else() -> None:
    figures = np.random.default_rng(9).normal(size=(40, 2))
    losses = (figures[:, 0] - figures[:, 1]).tolist()  # against the first, with the second
    for names in (("alpha", "synflow"), ("synflow", "alpha")):
        weights = Evidence(names, figures, losses, figures, trusts_search=False).weights
        assert weights[0] == 0.0 and weights[1] > 0.3
    assert Evidence(("synflow", "alpha"), figures, losses, figures).weights[1] >= 0.5, "a long one has it"


def test_what_was_earned_counts_only_where_chance_does_not_explain_all_together() -> None:
    """The trusted one is the wrong way round here, so all together tell nothing, and one that does is not heard."""
    rng = np.random.default_rng(4)
    figures, noise = rng.normal(size=(16, 2)), rng.normal(scale=0.2, size=16)
    quality = figures[:, 1] - 0.8 * figures[:, 0]
    evidence = Evidence(("naswot", "synflow"), figures, (noise - quality).tolist(), figures)
    assert evidence.weights[1] > 0.3 and evidence.together.low <= 0
    proven = evidence.proven()
    assert proven.weights.tolist() == [0.5, 0.0] and proven.idle == ["synflow"]
    assert [row.weight for row in proven.standings()] == [0.5, 0.0, None]
    told = Evidence(("naswot", "synflow"), figures, (noise - figures.sum(1)).tolist(), figures)
    assert told.together.low > 0 and told.proven() is told and told.weights[1] > 0.3


def test_a_good_source_predicts_networks_that_were_not_trained() -> None:
    rng = np.random.default_rng(6)
    quality = rng.normal(size=200)
    figures = np.stack([np.exp(quality + 0.4 * rng.normal(size=200)), rng.normal(size=200)], axis=1)
    evidence = Evidence(("good", "noise"), figures[:30], (-quality[:30]).tolist(), figures)
    assert tau_of(evidence.predict(figures[30:]), quality[30:]) > 0.65
    rows = {row.source: row for row in evidence.standings()}
    assert rows["good"].low > 0.4 and rows["noise"].low < 0.1
    assert rows["good"].tau == pytest.approx(tau_of(figures[:30, 0], quality[:30]))
    assert rows["all together"].tau > 0.5 and rows["all together"].weight is None


def test_short_trainings_tell_networks_of_one_size_apart_and_nothing_of_size() -> None:
    """They prefer small networks here; a source earns what it tells beside size, one that is size earns nothing."""
    rng = np.random.default_rng(13)
    log_size, good, noise = rng.normal(scale=0.5, size=(3, 80))
    figures = np.column_stack([1e6 * np.exp(log_size), 2.0 * log_size + good, 2.0 * log_size + noise, -log_size])
    evidence = Evidence(("macs", "good", "noise", "small"), figures, (4.0 * log_size - good).tolist(), figures, False)
    assert tau_of(figures[:, 1], -4.0 * log_size + good) < 0, "as the losses have it"
    _, for_good, for_noise, for_small = evidence.weights
    assert for_good > 0.35 and for_noise < 0.2 * for_good and for_small < 0.2 * for_good
    rows = {row.source: row for row in evidence.standings()}
    assert rows["good"].tau > 0.6 and rows["macs"].tau == 0.0 and abs(rows["noise"].tau) < 0.25
    beside_size = evidence.predict(figures) - SIZE_SLOPE * log_size
    assert tau_of(beside_size, good) > 0.6 and abs(tau_of(beside_size, log_size)) < 0.1


def test_that_promising_networks_were_trained_costs_a_source_nothing() -> None:
    """Only the best half by the source was trained: its mean there is far from 0, which is no error of its."""
    rng = np.random.default_rng(14)
    figures = rng.normal(size=(200, 1))
    scores = heard_scores(figures[:, 0])
    best = np.argsort(-scores)[:100]
    losses = -scores[best] + 0.1 * rng.normal(size=100)
    evidence = Evidence(("good",), figures[best], losses.tolist(), figures, trusts_search=False)
    slope = np.polyfit(scores[best], normal_scores(-losses), 1)[0]
    assert evidence.weights[0] == pytest.approx(slope, rel=0.05)


@pytest.mark.parametrize(("count", "is_refuted"), [(40, True), (8, False)])
def test_a_finding_that_is_the_wrong_way_round_within_a_size_loses_its_trust(count: int, is_refuted: bool) -> None:
    """Short trainings that prefer small networks refute nothing by that: the other finding likes large ones."""
    rng = np.random.default_rng(11)
    log_size, good = rng.normal(scale=0.5, size=count), rng.normal(size=count)
    noise = rng.normal(scale=0.3, size=(2, count))
    figures = np.column_stack([1e6 * np.exp(log_size), -good + noise[0], 4.0 * log_size + good + noise[1]])
    losses = 4.0 * log_size - good
    evidence = Evidence(("macs", "alpha", "supernet"), figures, losses.tolist(), figures)
    assert tau_of(figures[:, 2], -losses) < 0, "as the short trainings have it"
    assert evidence.doubted == (["alpha"] if is_refuted else [])
    assert evidence.weights[1] == (0.0 if is_refuted else 0.5) and evidence.weights[2] >= 0.5
    short = Evidence(("macs", "alpha", "supernet"), figures, losses.tolist(), figures, trusts_search=False)
    assert short.doubted == [], "it had no trust to lose"


@pytest.mark.parametrize(("count", "doubted"), [(60, ["supernet"]), (8, [])])
def test_a_finding_that_does_not_agree_with_the_proxies_on_networks_of_one_size_loses_its_trust(
    count: int, doubted: list[str]
) -> None:
    """All like large networks; beside that, alpha says what the proxies say, and the judged networks something else.

    Proxies are trusted where not all is that the search has found.
    """
    rng = np.random.default_rng(15)
    log_size, good, other = rng.normal(scale=0.5, size=(3, count))
    naswot, expressivity, alpha = good + rng.normal(scale=0.3, size=(3, count)) + 3.0 * log_size
    figures = np.column_stack([1e6 * np.exp(log_size), alpha, other + 3.0 * log_size, naswot, expressivity])
    names = ("macs", "alpha", "supernet", "naswot", "expressivity")
    assert tau_of(figures[:, 2], naswot) > 0.3 or count == 8, "of all sizes they seem to agree"
    evidence = untrained(names, figures)
    assert evidence.doubted == doubted
    weights = dict(zip(names, evidence.weights, strict=True))
    assert weights == {
        "macs": 0.0,
        "alpha": 0.5,
        "supernet": 0.0 if doubted else 0.5,
        "naswot": 0.5 if doubted else 0.0,
        "expressivity": 0.5 if doubted else 0.0,
    }
