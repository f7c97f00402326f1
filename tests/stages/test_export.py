"""The export stage from a run on disk; the target's clock is a fake."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest

from pipeline.artifacts.metrics import TeacherFigures
from pipeline.artifacts.model_card import ModelCard
from pipeline.artifacts.network import ChosenNetwork
from pipeline.config import Config, ExportConfig, ProfileConfig, TargetConfig
from pipeline.deploy import assembly
from pipeline.errors import PromiseBroken, UserError
from pipeline.latency.budget_rule import Measured
from pipeline.rundir import RunDir
from pipeline.space.genotype import genotype_from_record
from pipeline.space.plan import count_macs
from pipeline.space.skeleton import Skeleton
from pipeline.stages import export
from pipeline.stages.context import Context
from tests.artifacts.made import made_certificate, made_metrics
from tests.deploy.conftest import LABELS, make_images, make_trained
from tests.space.test_folding import NASBENCH_RECORD

FILES = {"model.onnx", "model.json", "labels.txt", "predict.py"}
NOISE, P50_MS = 0.01, 1.0


def measure_fake(*_):
    """fp32 as fast as the budget allows, int8 (the second file) twice as fast."""
    return lambda paths: [Measured(P50_MS / (1 + i), 1.2, 1.5, NOISE, 1.1) for i in range(len(paths))]


def make_context(project: Path, **settings) -> Context:
    export_settings = {key: settings.pop(key) for key in list(settings) if key in ExportConfig.model_fields}
    config = Config(target=TargetConfig(**{"budget_ms": 1.0, **settings}), export=ExportConfig(**export_settings))
    context = Context(config, RunDir(project, "demo"))
    trained = make_trained(Skeleton("nasbench201", 1, 4, 8, len(LABELS), 1), NASBENCH_RECORD, LABELS)
    images = make_images(trained, 40)
    context.__dict__["data"] = SimpleNamespace(labels=LABELS, train=images, test=images)
    if not context.run.weights.is_file():
        network = ChosenNetwork(genotype=trained.network.genotype, skeleton=trained.network.skeleton)
        for artifact in (trained, network, made_certificate(network), made_metrics()):
            context.write(artifact)
    return context


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Path:
    """A project with a finished export."""
    project = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "open_timing", measure_fake)
        export.run(make_context(project))
    return project


@pytest.fixture
def project(exported, tmp_path, monkeypatch) -> Path:
    """A copy of it, in which the exporter need not run again: its file is at hand."""
    shutil.copytree(exported / "runs", tmp_path / "runs")
    model = exported / "exports" / "demo" / "model.onnx"
    monkeypatch.setattr(export, "open_timing", measure_fake)
    monkeypatch.setattr(assembly, "write_deployed", lambda *args: shutil.copy(model, args[2]))
    return tmp_path


def contents(project: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (project / "exports" / "demo").iterdir()}


def test_the_folder_is_complete_and_describes_itself(exported):
    folder = exported / "exports" / "demo"
    assert set(contents(exported)) == FILES
    card = ModelCard.read(folder / "model.json")
    skeleton = Skeleton("nasbench201", 1, 4, 8, len(LABELS), 1)
    context = make_context(exported)
    genotype = export.make_order(context, measure_fake()).trained.network.genotype
    assert card.macs == count_macs(skeleton, genotype)
    assert card.labels == list(LABELS) and card.genotype.record() == NASBENCH_RECORD
    expected = {"p50": 1.0, "p95": 1.2, "p99": 1.5, "raw_p50": 1.1}
    assert card.latency_ms.model_dump() == expected and card.test_accuracy == 1.0
    assert card.within_noise is True and card.measured_interval_ms == pytest.approx((0.99, 1.01))
    assert "median of undisturbed calls" in card.p50_means
    assert all(clause.passed for clause in card.contract) and card.int8 is None
    metadata = {prop.key: prop.value for prop in onnx.load(folder / "model.onnx").metadata_props}
    assert json.loads(metadata["labels"]) == list(LABELS)
    assert json.loads(metadata["certificate"])["predicted_ms"] == 0.9
    assert {"genotype", "normalization", "resolution", "budget_ms", "versions", "sources_sha256"} <= set(metadata)


def test_two_exports_are_byte_identical(exported, monkeypatch):
    before = contents(exported)
    monkeypatch.setattr(export, "open_timing", measure_fake)
    export.run(make_context(exported))
    assert contents(exported) == before


@pytest.mark.parametrize(
    ("settings", "clause"),
    [
        ({"budget_ms": P50_MS / 2}, "latency"),
        ({"budget_ms": 1.1, "percentile": 99}, "latency"),
        ({"max_macs": 1000}, "mac limit"),
        ({"max_params": 10}, "param limit"),
        ({"max_file_mb": 0.001}, "file size"),
        ({"uint8_input": True}, "graph"),
    ],
)
def test_a_broken_promise_leaves_the_previous_export(project, settings, clause):
    export.run(make_context(project))
    before = contents(project)
    with pytest.raises(PromiseBroken, match=f"^the export does not keep its contract.*\n  {clause} \\("):
        export.run(make_context(project, **settings))
    assert contents(project) == before
    assert [path.name for path in (project / "exports").iterdir()] == ["demo"]


def test_a_file_cut_short_by_a_full_disk_is_noticed(project, monkeypatch):
    def write_half(_, __, path, ___):
        path.write_bytes(b"\x08\x09half")

    monkeypatch.setattr(assembly, "write_deployed", write_half)
    with pytest.raises(PromiseBroken, match="file "):
        export.run(make_context(project))
    assert not (project / "exports" / "demo").exists()


def test_a_card_that_was_altered_is_noticed(project):
    export.run(make_context(project))
    path = project / "exports" / "demo" / "model.json"
    path.write_text(path.read_text().replace('"macs": ', '"macs": 1'))
    with pytest.raises(UserError, match="altered"):
        ModelCard.read(path.parent / "model.json")


def test_a_model_that_was_altered_is_noticed(project):
    export.run(make_context(project))
    model = project / "exports" / "demo" / "model.onnx"
    model.write_bytes(model.read_bytes() + b"\0")
    with pytest.raises(UserError, match=r"model\.onnx is not the file"):
        ModelCard.read(model.parent / "model.json")


def test_int8_is_shipped_when_it_is_worth_it(project):
    export.run(make_context(project, int8=True, max_accuracy_loss=0.99))
    card = ModelCard.read(project / "exports" / "demo" / "model.json")
    assert set(contents(project)) == {*FILES, "model.int8.onnx"}
    assert card.int8 is not None and card.int8.shipped and card.int8.measured_ms is not None
    assert card.int8.measured_ms.p50 == 0.5
    assert "model.int8.onnx" in card.files


def test_int8_that_is_slower_is_left_out_and_the_card_says_why(project, monkeypatch):
    def slower(*_):
        fp32_alone, both = [Measured(P50_MS, 1, 1, NOISE)], [Measured(0.5, 1, 1, NOISE), Measured(1.0, 1, 1, NOISE)]
        return lambda paths: both if len(paths) == 2 else fp32_alone

    monkeypatch.setattr(export, "open_timing", slower)
    export.run(make_context(project, int8=True))
    card = ModelCard.read(project / "exports" / "demo" / "model.json")
    assert set(contents(project)) == FILES
    assert card.int8 is not None and card.int8.shipped is False and card.int8.accuracy is not None
    assert "not faster: 1 ms against 0.5 ms" in card.int8.reason
    assert card.int8.accuracy > 0


def test_weights_of_another_genotype_are_refused(project):
    context = make_context(project)
    other = genotype_from_record(
        {**NASBENCH_RECORD, "cell": NASBENCH_RECORD["cell"].replace("nor_conv_3x3~0", "nor_conv_1x1~0")}
    )
    network = ChosenNetwork(genotype=other, skeleton=context.read(ChosenNetwork).skeleton)
    context.write(network)
    with pytest.raises(UserError, match="that of another network"):
        export.run(context)
    context.write(made_certificate(network))
    with pytest.raises(UserError, match=r"weights.safetensors holds another network"):
        export.run(context)


@pytest.mark.parametrize(
    ("name", "change", "command"),
    [
        ("certificate", {"budget_ms": "fast"}, "discretize"),
        ("certificate", {"percentile": 51}, "discretize"),
        ("certificate", {"fits": False}, "discretize"),
        ("certificate", {"noise_floor": float("nan")}, "discretize"),
        ("certificate", {"measured_ms": {"p50": 1.1, "p95": 1.1, "p99": 1.2}}, "discretize"),
        ("certificate", {"genotype_sha256": "0" * 64}, "discretize"),
        ("certificate", {"skeleton": asdict(Skeleton("nasbench201", 2, 8, 8, len(LABELS), 1))}, "discretize"),
        ("metrics", {"test_accuracy": "good"}, "retrain"),
    ],
)
def test_a_record_that_cannot_be_believed_names_the_command_that_makes_it(project, name, change, command):
    export.run(make_context(project))
    before = contents(project)
    context = make_context(project)
    path = getattr(context.run, name)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=f"run `pipeline {command}.*` again"):
        export.run(context)
    assert contents(project) == before


@pytest.mark.parametrize(
    ("backend", "certified", "sentinel_ms", "percentiles"),
    [("onnxruntime", 95, 0.4, {50, 95}), ("torch", 50, None, {50})],
)
def test_files_are_timed_in_onnxruntime_beside_a_sentinel_that_was_timed_there(
    tmp_path, backend, certified, sentinel_ms, percentiles
):
    config = Config(target=TargetConfig(batch=2), profile=ProfileConfig(backend=backend))
    certificate = made_certificate(percentile=certified, sentinel_ms=0.4, budget_ms=9.0)
    machine = export.open_runtime(Context(config, RunDir(tmp_path, "demo")), certificate)
    assert (machine.device.fingerprint.runtime, machine.device.fingerprint.batch) == ("onnxruntime", 2)
    assert (machine.sentinel_ms, set(machine.percentiles)) == (sentinel_ms, percentiles)


def test_a_teacher_leaves_a_line_in_the_card_and_no_other_trace(exported, project):
    """The same weights with and without a word about a teacher: the same file, clauses and certificate."""
    context = make_context(project)
    figures = TeacherFigures(
        name="big.onnx", sha256="0" * 64, weight=0.9, temperature=4.0, accuracy=0.8, probe_accuracy=0.3, images=50,
        judged_on="the holdout", kept=False,
    )  # fmt: skip
    context.write(made_metrics().model_copy(update={"teacher": figures}))
    export.run(context)
    plain, taught = (ModelCard.read(place / "exports" / "demo" / "model.json") for place in (exported, project))
    line = "big.onnx, right on 80.0% of 50 images from the holdout; weight 0.9, temperature 4"
    assert (plain.teacher, taught.teacher) == ("", line)
    assert plain.files == taught.files and plain.certificate == taught.certificate
    assert [clause.clause for clause in plain.contract] == [clause.clause for clause in taught.contract]
    described = assembly._write_model(export.make_order(context, measure_fake()), project).description
    assert "big.onnx" not in json.dumps(described), "which is what goes into model.onnx"
