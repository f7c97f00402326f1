"""What a file answers in onnxruntime, beside what the trained network answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pipeline.artifacts.trained import Trained
from pipeline.console import progress_bar
from pipeline.data.normalization import to_floats
from pipeline.deploy.deployed import reference_logits

Images = Dataset[tuple[Tensor, int]]
_BATCH = 64


class Session:
    """An ONNX classifier open in onnxruntime on the CPU; takes uint8 images whatever its input is."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        # its waiting threads would take the processor from torch's, which run in turn with them
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0]

    def logits(self, images: Tensor) -> Tensor:
        pixels = to_floats(images) if self._input.type == "tensor(float)" else images
        return torch.from_numpy(self._session.run(None, {self._input.name: pixels.numpy()})[0])


@dataclass(frozen=True)
class Comparison:
    """File and trained network on the same images.

    A `tie` is an image on which the two best logits of the network are so close that the tolerance may swap them.
    """

    images: int
    correct_file: int
    correct_torch: int
    disagreements: int
    ties: int
    largest_difference: float


def compare(trained: Trained, path: Path, images: Images, tolerance: float) -> Comparison:
    """Run both on all images."""
    session = Session(path)
    parts = [
        _compare_batch(reference_logits(trained, pixels), session.logits(pixels), targets, tolerance)
        for pixels, targets in batches(images, "the file beside torch")
    ]
    return Comparison(
        sum(part.images for part in parts),
        sum(part.correct_file for part in parts),
        sum(part.correct_torch for part in parts),
        sum(part.disagreements for part in parts),
        sum(part.ties for part in parts),
        max(part.largest_difference for part in parts),
    )


def _compare_batch(expected: Tensor, found: Tensor, targets: Tensor, tolerance: float) -> Comparison:
    best = expected.topk(min(2, expected.shape[1]), dim=1).values
    tied = best[:, 0] - best[:, -1] <= 2 * tolerance
    answer, expected_answer = found.argmax(1), expected.argmax(1)
    return Comparison(
        len(targets),
        int((answer == targets).sum()),
        int((expected_answer == targets).sum()),
        int(((answer != expected_answer) & ~tied).sum()),
        int(tied.sum()),
        largest_difference(expected, found),
    )


def largest_difference(expected: Tensor, found: Tensor) -> float:
    """max |expected − found|; infinite if one of them is not a number, which must not hide in a maximum."""
    if expected.shape != found.shape:
        raise ValueError(f"logits of the shape {tuple(found.shape)} instead of {tuple(expected.shape)}")
    return float((expected - found).abs().nan_to_num(nan=torch.inf).max())


def measure_accuracy(path: Path, images: Images, title: str) -> float:
    """The share of images that the file classifies correctly."""
    session, correct, total = Session(path), 0, 0
    for pixels, targets in batches(images, title):
        correct += int((session.logits(pixels).argmax(1) == targets).sum())
        total += len(targets)
    return correct / total


def batches(images: Images, title: str) -> Iterator[tuple[Tensor, Tensor]]:
    """The images in order, with a progress bar."""
    loader: DataLoader[Any] = DataLoader(images, batch_size=_BATCH)
    with progress_bar() as bar:
        task = bar.add_task(title, total=len(loader), note="")
        for batch in loader:
            yield batch
            bar.advance(task)
