"""Making an export: everything is written beside the previous one, checked, and put in its place only if it holds."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils.data import Subset

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.document import Percentiles
from pipeline.artifacts.known_latency import MEASURED
from pipeline.artifacts.labels import Labels
from pipeline.artifacts.model_card import Int8Trial, ModelCard
from pipeline.artifacts.trained import Trained
from pipeline.data import decode
from pipeline.data.normalization import to_floats
from pipeline.deploy.clauses import CLAUSES, LATENCY
from pipeline.deploy.contract import Export, Limits, Measure, check_contract
from pipeline.deploy.deployed import Deployed
from pipeline.deploy.evaluation import Images, batches, measure_accuracy
from pipeline.deploy.folder import owner_of, replacing
from pipeline.deploy.graph import read_checked
from pipeline.deploy.model_card import describe_model, describe_origin, make_card, to_metadata
from pipeline.deploy.quantize import Decision, Rating, decide, quantize
from pipeline.onnx_file import write_deployed
from pipeline.rundir import RunDir
from pipeline.whole_files import sha256_of, write_text, writing

_CALIBRATION_IMAGES = 256


@dataclass(frozen=True)
class Order:
    """What is exported, from which run, and what it must keep to."""

    run: RunDir
    trained: Trained
    certificate: Certificate
    labels: tuple[str, ...]
    train: Images
    test: Images
    test_accuracy: float
    limits: Limits
    uint8_input: bool
    int8: bool
    max_accuracy_loss: float
    measure: Measure
    teacher: str = ""


def assemble(order: Order) -> ModelCard:
    """Write exports/NAME and return its model card; PromiseBroken leaves the previous export as it was."""
    with replacing(order.run) as folder:
        description, export = _write_model(order, folder)
        verdicts = check_contract(export, CLAUSES)
        int8 = _try_int8(order, export) if order.int8 else None
        write_text(folder / order.run.predict_script.name, predict_source())
        card = folder / order.run.model_card.name
        make_card(owner_of(order.run), description, export, verdicts, int8, order.teacher).write(card)
        return ModelCard.read(card)


def make_files(order: Order) -> dict[str, bytes]:
    """The files whose latency counts, as `assemble` makes them, by sha256; every other promise is checked first."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _, export = _write_model(order, folder)
        check_contract(export, tuple(clause for clause in CLAUSES if clause.name != LATENCY))
        paths = [export.model_path]
        if order.int8:
            paths.append(folder / order.run.int8_model.name)
            quantize(export.model_path, paths[-1], _calibration(order))
        return {sha256_of(path): path.read_bytes() for path in paths}


class _Written(NamedTuple):
    description: dict[str, Any]
    export: Export


def _write_model(order: Order, folder: Path) -> _Written:
    """labels.txt and model.onnx, and what they are held against."""
    description = {
        **describe_model(order.trained, order.uint8_input),
        **describe_origin(order.run, order.certificate),
    }
    deployed = Deployed(order.trained, order.uint8_input)
    Labels(order.trained.labels).write(folder / order.run.labels.name)
    with writing(folder / order.run.model.name) as part:
        write_deployed(deployed, deployed.example(), part, to_metadata(description))
    export = Export(
        folder, order.trained, deployed, order.labels, order.test, order.test_accuracy, order.limits, order.measure
    )
    return _Written(description, export)


def predict_source() -> str:
    """predict.py: the script, with the text of the decoding that training used where it imports that."""
    script = Path(__file__).with_name("predict_script.py").read_text(encoding="utf-8")
    decoding = Path(decode.__file__).read_text(encoding="utf-8")
    before, line, after = script.partition("from pipeline.data.decode import SUFFIXES, ImageRefused, decode\n")
    assert line
    return f"{before}# how training reads an image file, word for word\n{decoding}{after}"


def _try_int8(order: Order, export: Export) -> Int8Trial:
    """The int8 file beside the other if it is better, and in any case the figures and the reason."""
    if export.measured.basis != MEASURED:
        reason = "nobody has timed it on the target; `pipeline export --int8 --write-kit DIR` hands it out"
        return Int8Trial(shipped=False, reason=reason)
    path = export.folder / order.run.int8_model.name
    try:
        with writing(path) as part:
            quantize(export.model_path, part, _calibration(order))
        read_checked(path)
    except OSError:
        raise
    except Exception as error:  # whatever the quantizer stumbles over, the fp32 export is sound
        path.unlink(missing_ok=True)
        return Int8Trial(shipped=False, reason=f"onnxruntime could not quantize it: {str(error).splitlines()[:1]}")
    fp32_measured, int8_measured = order.measure([export.model_path, path])
    fp32 = Rating(export.comparison.correct_file / export.comparison.images, fp32_measured)
    int8 = Rating(measure_accuracy(path, order.test, "accuracy of int8"), int8_measured)
    decision: Decision = decide(fp32, int8, order.certificate.percentile, order.max_accuracy_loss)
    size_mb = path.stat().st_size / 1e6
    if not decision.shipped:
        path.unlink()
    return Int8Trial(
        **decision._asdict(),
        accuracy=int8.accuracy,
        fp32_accuracy=fp32.accuracy,
        measured_ms=Percentiles(**int8.measured.record()),
        fp32_measured_ms=Percentiles(**fp32.measured.record()),
        noise_floor=int8.measured.noise_floor,
        file_mb=size_mb,
    )


def _calibration(order: Order) -> Iterator[Tensor]:
    """Training images, evenly spaced, as the input of the deployed file."""
    count = len(order.train)  # type: ignore[arg-type]
    chosen = range(0, count, max(1, count // _CALIBRATION_IMAGES))[:_CALIBRATION_IMAGES]
    for images, _ in batches(Subset(order.train, chosen), "calibrating int8"):
        yield images if order.uint8_input else to_floats(images)
