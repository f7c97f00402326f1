"""idx files and CIFAR's batches, sound but for one thing."""

import gzip
import pickle
import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.campaign.samples import REFUSED, Payload, Variant, labels, pixels


def _idx(path: Path, changes: Mapping[str, bytes] = {}) -> None:
    folder = path / "data"
    folder.mkdir()
    files = {
        "train-images-idx3-ubyte": bytes([0, 0, 8, 3]) + struct.pack(">3I", 20, 8, 8) + pixels().tobytes(),
        "train-labels-idx1-ubyte": bytes([0, 0, 8, 1]) + struct.pack(">I", 20) + labels().astype(np.uint8).tobytes(),
    }
    for name, content in {**files, **changes}.items():
        if content:
            (folder / name).write_bytes(content)


_IMAGES, _LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
IDX: dict[str, Variant] = {
    "sound": Variant(_idx, "be done"),
    "no labels": Variant(partial(_idx, changes={_LABELS: b""}), REFUSED),
    "no images": Variant(partial(_idx, changes={_IMAGES: b""}), REFUSED),
    "cut": Variant(partial(_idx, changes={_IMAGES: bytes([0, 0, 8, 3]) + struct.pack(">3I", 20, 8, 8)}), REFUSED),
    "of 2^96 bytes": Variant(partial(_idx, changes={_IMAGES: bytes([0, 0, 8, 3]) + b"\xff" * 12}), REFUSED),
    "of floats": Variant(partial(_idx, changes={_IMAGES: bytes([0, 0, 13, 3]) + bytes(12)}), REFUSED),
    "of no images": Variant(partial(_idx, changes={_IMAGES: bytes([0, 0, 8, 3]) + bytes(12)}), REFUSED),
    "fewer labels": Variant(partial(_idx, changes={_LABELS: bytes([0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 0])}), REFUSED),
    "a gap in labels": Variant(
        partial(_idx, changes={_LABELS: bytes([0, 0, 8, 1, 0, 0, 0, 20]) + b"\x00\x07" * 10}), REFUSED
    ),
    "a broken gzip": Variant(
        partial(_idx, changes={_IMAGES: b"", f"{_IMAGES}.gz": b"\x1f\x8b\x08" + b"x" * 30}), REFUSED
    ),
    "a cut gzip": Variant(
        partial(_idx, changes={_IMAGES: b"", f"{_IMAGES}.gz": gzip.compress(bytes(99))[:-9]}), REFUSED
    ),
    "a gzip bomb": Variant(lambda path: _idx(path, {_IMAGES: b"", f"{_IMAGES}.gz": _gzip_bomb()}), REFUSED),
    "two sets": Variant(partial(_idx, changes={f"other-{_IMAGES}": b"x"}), REFUSED),
}


def _gzip_bomb() -> bytes:
    """Some megabytes for twelve gigabytes of zeros."""
    return gzip.compress(bytes(1 << 26), 1) * 192


def _cifar(path: Path, changes: Mapping[str, Any] = {}) -> None:
    folder = path / "data"
    folder.mkdir()
    rows = np.zeros((4, 3072), np.uint8)
    batch = {b"data": rows, b"labels": [0, 1, 2, 3]}
    files: dict[str, Any] = {f"data_batch_{n}": batch for n in range(1, 6)} | {"test_batch": batch}
    files["batches.meta"] = {b"label_names": [b"a", b"b", b"c", b"d"]}
    for name, record in {**files, **changes}.items():
        (folder / name).write_bytes(record if isinstance(record, bytes) else pickle.dumps(record, 2))


CIFAR: dict[str, Variant] = {
    "sound": Variant(_cifar, "be done"),
    "a payload": Variant(partial(_cifar, changes={"data_batch_3": Payload()}), REFUSED),
    "a payload inside": Variant(
        partial(_cifar, changes={"data_batch_3": {b"data": Payload(), b"labels": [0]}}), REFUSED
    ),
    "not a pickle": Variant(partial(_cifar, changes={"data_batch_1": b"not a pickle"}), REFUSED),
    "nothing": Variant(partial(_cifar, changes={"test_batch": b""}), REFUSED),
    "a list": Variant(partial(_cifar, changes={"test_batch": [1, 2]}), REFUSED),
    "short rows": Variant(
        partial(_cifar, changes={"test_batch": {b"data": np.zeros((4, 9), np.uint8), b"labels": [0] * 4}}), REFUSED
    ),
    "float rows": Variant(
        partial(_cifar, changes={"test_batch": {b"data": np.zeros((4, 3072)), b"labels": [0] * 4}}), REFUSED
    ),
    "labels of text": Variant(
        partial(_cifar, changes={"test_batch": {b"data": np.zeros((2, 3072), np.uint8), b"labels": ["a", "b"]}}),
        REFUSED,
    ),
    "an unknown label": Variant(
        partial(_cifar, changes={"test_batch": {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 99]}}),
        REFUSED,
    ),
    "no labels": Variant(partial(_cifar, changes={"test_batch": {b"data": np.zeros((2, 3072), np.uint8)}}), REFUSED),
    "an empty list of labels": Variant(
        partial(_cifar, changes={"test_batch": {b"data": np.zeros((0, 3072), np.uint8), b"labels": []}}),
        REFUSED,
    ),
    "no names": Variant(partial(_cifar, changes={"batches.meta": {}}), REFUSED),
    "deep": Variant(partial(_cifar, changes={"data_batch_1": b"\x80\x02" + b"(" * 100_000 + b"."}), REFUSED),
    "memo of 4 GB": Variant(partial(_cifar, changes={"data_batch_1": b"\x80\x02r\xff\xff\xff\xff."}), REFUSED),
}
