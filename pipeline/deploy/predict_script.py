"""python predict.py IMAGE_OR_FOLDER … [--model MODEL.onnx] - prints the five likeliest classes of every image.

Of more than three images it prints a line each, with the likeliest class, and how many there are of every class.
Needs onnxruntime, numpy and Pillow.
"""

import argparse
import io
import json
import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime

from pipeline.data.decode import SUFFIXES, ImageRefused, decode

_SHOWN = 5
_FEW = 3


class Classifier:
    """An exported model, ready to run."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise SystemExit(f"there is no model {path}; keep predict.py beside its model.onnx, or give --model")
        try:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = certified_threads(path)
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            self.labels: list[str] = json.loads(self.session.get_modelmeta().custom_metadata_map["labels"])
        except Exception as error:  # onnxruntime has no family of errors
            raise SystemExit(f"{path} is not a model that `pipeline export` wrote ({error})") from None
        self.input = self.session.get_inputs()[0]

    def chances(self, image: Path) -> np.ndarray:
        """The probability of every class; the pixels are those of training."""
        if image.is_dir() or not image.exists():
            raise ImageRefused(f"there is no {'image in' if image.exists() else 'file or folder'} {image}")
        _, channels, side, _ = self.input.shape
        pixels: np.ndarray = decode(image, side, channels == 3)[None]
        if self.input.type == "tensor(float)":
            pixels = pixels.astype(np.float32) / np.float32(255)
        logits: np.ndarray = self.session.run(None, {self.input.name: pixels})[0][0]
        powers = np.exp(logits - logits.max())
        return np.asarray(powers / powers.sum())


def certified_threads(model: Path) -> int:
    """The threads that its latency was certified with, by model.json beside it; 0, all cores, where none are told."""
    try:
        card = json.loads(model.with_name("model.json").read_text(encoding="utf-8"))
        return int(card["certificate"]["device"]["threads"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0


def find_images(given: list[Path]) -> list[Path]:
    """Files as they are given, and the images below folders; a path that has none stays, to be refused in its turn."""
    found: list[Path] = []
    for path in given:
        try:
            inside = sorted(file for file in path.rglob("[!.]*") if file.suffix.lower() in SUFFIXES and file.is_file())
        except OSError:  # a folder that is closed to this user
            inside = []
        found += inside or [path]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(" - ")[2])
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGE_OR_FOLDER")
    parser.add_argument("--model", type=Path, default=Path(__file__).with_name("model.onnx"))
    options = parser.parse_args()
    images, classifier, refused = find_images(options.images), Classifier(options.model), 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names and labels that the terminal cannot show
    tally: Counter[str] = Counter()
    for image in images:
        try:
            chances = classifier.chances(image)
        except (ImageRefused, OSError) as error:
            sys.stderr.write(f"{error}\n")
            refused += 1
            continue
        best = np.argsort(-chances)[:_SHOWN]
        if len(images) > _FEW:
            tally[classifier.labels[best[0]]] += 1
            sys.stdout.write(f"{chances[best[0]]:7.2%}  {classifier.labels[best[0]]}  {image}\n")
            continue
        if len(images) > 1:
            sys.stdout.write(f"{image}\n")
        for index in best:
            sys.stdout.write(f"{chances[index]:7.2%}  {classifier.labels[index]}\n")
    for label, count in tally.most_common():
        sys.stdout.write(f"{count:7,}  {label}\n")
    sys.stdout.flush()
    return 1 if refused else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # `predict.py folder | head`: whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
