"""A target that is elsewhere: its prediction decides and is marked, until a kit brings back what it measured."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.known_latency import BEFORE_TRAINING, MEASURED, PREDICTED
from pipeline.artifacts.network import ChosenNetwork
from pipeline.errors import PromiseBroken, UserError
from pipeline.fingerprint import Fingerprint
from pipeline.latency.budget_rule import Measured
from pipeline.latency.kit_script import RESULT_FILE, kit_id
from pipeline.latency.predictor import Prediction, expected
from pipeline.selection.records import TableState
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.skeleton import Skeleton
from pipeline.stages import candidates_kit, discretize, export
from pipeline.stages.context import Context
from pipeline.whole_files import read_json
from tests.artifacts.made import NETWORK, made_certificate
from tests.latency.fakes import FINGERPRINT
from tests.selection.fakes import FakePredictor, targets
from tests.stages.made_search import SKELETON, budget_at, make_context

SLOW = replace(FINGERPRINT, processor="Slow 1")
ELSEWHERE = TableState(True, ["processor: Slow 1 in the table, Fake 1 here"])


def expect(skeleton: Skeleton, genotype: Genotype) -> Measured:
    return expected(Prediction(*FakePredictor(skeleton).predict(genotype)), 1.25, 1.5)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is of a slow machine; nothing can be measured on it from here."""

    def open_prospect(_: Context, by_prediction: bool = False) -> discretize.Prospect:
        return discretize.Prospect(targets([SKELETON]), ELSEWHERE, expect, SLOW, 0.25)

    for module in (discretize, candidates_kit):
        monkeypatch.setattr(module, "open_prospect", open_prospect)


def answer(kit: Path, ms_of: Callable[[Genotype], float], fingerprint: Fingerprint = SLOW) -> Path:
    """What the kit's script would write on a quiet machine that takes `ms_of` for every network."""
    record = read_json(kit / "kit.json")
    times = {name: ms_of(genotype_from_record(record["candidates"][name]["genotype"])) for name in record["candidates"]}
    readings = {name: [[ms, ms, 0.25]] * 300 for name, ms in times.items()}
    journal = {"readings": readings, "looks_ms": [0.25] * 100}
    result = {"kit": record, "kit_id": kit_id(record), "fingerprint": fingerprint.record(), "complete": True}
    path = kit / RESULT_FILE
    path.write_text(json.dumps({**result, "journal": journal}))
    return path


def predicted_ms(genotype: Genotype) -> float:
    return FakePredictor(SKELETON).predict(genotype).ms


def tree(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("elsewhere")
def test_a_target_that_cannot_be_asked_is_predicted_and_the_result_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = make_context(tmp_path)
    discretize.run(context)
    record, certificate = read_json(context.run.certificate), context.read(Certificate)
    predicted = predicted_ms(context.read(ChosenNetwork).genotype)
    assert record["basis"] == PREDICTED and record["measured_ms"] is None and record["provisional"] is True
    assert certificate.certified_ms == pytest.approx(predicted) and predicted <= context.config.target.budget_ms
    assert record["expected_interval_ms"] == pytest.approx([0.97 * predicted, 1.03 * predicted])
    assert certificate.device == SLOW
    selection = read_json(context.run.selection)
    assert all(one["measured_ms"] is None for one in selection["candidates"])
    assert PREDICTED in capsys.readouterr().err


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("percentile", [50, 95])
def test_a_prediction_over_the_budget_is_refused(tmp_path: Path, percentile: int) -> None:
    context = make_context(tmp_path, target={"budget_ms": 0.9 * budget_at(0.0), "percentile": percentile})
    before = tree(tmp_path)
    with pytest.raises(PromiseBroken, match="cannot be kept"):
        discretize.run(context)
    assert tree(tmp_path) == before


@pytest.mark.usefixtures("elsewhere")
def test_the_kit_holds_several_candidates_best_first_and_the_best_that_fits_is_certified(tmp_path: Path) -> None:
    """The target is 7 % slower than its table says: what prediction takes does not fit, a later one does."""
    context, kit = make_context(tmp_path), tmp_path / "kit"
    candidates_kit.write_kit(context, kit)
    handed = [genotype_from_record(one["genotype"]) for one in read_json(kit / "kit.json")["candidates"].values()]
    times = [predicted_ms(genotype) for genotype in handed]
    budget_ms = context.config.target.budget_ms
    assert len(handed) >= 4 and times == sorted(times, reverse=True)
    assert budget_ms < times[0] <= 1.08 * budget_ms, "the first may fit although prediction says no"
    candidates_kit.use_kit(context, answer(kit, lambda genotype: 1.07 * predicted_ms(genotype)))
    best = next(genotype for genotype, ms in zip(handed, times, strict=True) if 1.07 * ms <= 0.98 * budget_ms)
    certificate, chosen = context.read(Certificate), context.read(ChosenNetwork)
    assert chosen.genotype == best != handed[0]
    assert certificate.require_of(chosen).certified_ms == pytest.approx(1.07 * predicted_ms(best))
    assert (certificate.basis, certificate.device, certificate.table_differences) == (MEASURED, SLOW, [])
    assert certificate.provisional is False and certificate.predicted_ms == pytest.approx(predicted_ms(best))


@pytest.mark.usefixtures("elsewhere")
def test_a_target_too_slow_for_every_candidate_is_refused_with_its_figures(tmp_path: Path) -> None:
    context, kit = make_context(tmp_path), tmp_path / "kit"
    candidates_kit.write_kit(context, kit)
    result = answer(kit, lambda genotype: 10 * predicted_ms(genotype))
    before = tree(tmp_path)
    with pytest.raises(PromiseBroken, match=r"the best of \d measured networks took"):
        candidates_kit.use_kit(context, result)
    assert tree(tmp_path) == before


@pytest.mark.usefixtures("elsewhere")
def test_several_budgets_share_a_kit(tmp_path: Path) -> None:
    budgets = [budget_at(0.1), budget_at(0.3)]
    context, kit = make_context(tmp_path, discretize={"budgets_ms": budgets}), tmp_path / "kit"
    candidates_kit.write_kit(context, kit)
    candidates_kit.use_kit(context, answer(kit, predicted_ms))
    for budget_ms in budgets:
        own = Certificate.read(context.run.genotype.parent / f"{budget_ms:g}ms" / "certificate.json")
        assert own.budget_ms == budget_ms and own.basis == MEASURED


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"target": {"budget_ms": 1.5}}, r"another kit: it differs in target\.budget_ms"),
        ({"seed": 1}, "another kit: it differs in alphas"),
        ({"fingerprint": FINGERPRINT}, "another machine than the latency table .*processor: Slow 1"),
    ],
)
def test_a_kit_that_belongs_to_something_else_is_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    kit = tmp_path / "kit"
    candidates_kit.write_kit(make_context(tmp_path), kit)
    result = answer(kit, predicted_ms, change.pop("fingerprint", SLOW))
    context = make_context(tmp_path, **change)
    before = tree(tmp_path)
    with pytest.raises(UserError, match=sentence):
        candidates_kit.use_kit(context, result)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("measured", [False, True])
def test_the_file_of_a_target_elsewhere_is_judged_by_its_certificate(measured: bool) -> None:
    """By prediction, or by what a kit measured of the network before training; never by this machine."""
    predicted: dict[str, Any] = {
        "basis": PREDICTED,
        "measured_ms": None,
        "noise_floor": None,
        "expected_interval_ms": (0.8, 1.05),
    }
    predicted["expected_ms"] = {"p50": 0.9, "p95": 1.1, "p99": 1.2}
    certificate = made_certificate(NETWORK, **({} if measured else predicted))
    found = export.as_certified(certificate)
    assert (found.basis, found.at(50)) == (BEFORE_TRAINING if measured else PREDICTED, 0.9)
    assert found.is_within_noise_of(1.0, 50) is not measured
    record = found.record_beside(1.0, 50)
    assert (record["measured_ms"] is None) is not measured and record["basis"] == found.basis
