"""numpy archives, sound but for one thing."""

import io
import os
import pickle
import struct
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.campaign.samples import REFUSED, Payload, Variant, labels, pixels


def _npz(path: Path, **changes: Any) -> None:
    arrays = {"x_train": pixels(), "y_train": labels(), "x_test": pixels(6), "y_test": labels(6), **changes}
    np.savez(path / "data.npz", **{name: array for name, array in arrays.items() if array is not None})


def _raw_npz(path: Path, member: bytes) -> None:
    with zipfile.ZipFile(path / "data.npz", "w") as archive:
        archive.writestr("x_train.npy", member)
        archive.writestr("y_train.npy", _npy(labels()))


def _npy(array: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def _header(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def _shaped(count: int) -> bytes:
    """The header of so many images, without any."""
    return _header(b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d, 8, 8)}\n" % count)


def _write(path: Path, content: bytes) -> None:
    (path / "data.npz").write_bytes(content)


NPZ: dict[str, Variant] = {
    "sound": Variant(_npz, "be done"),
    "floats of 0 to 1": Variant(partial(_npz, x_train=pixels() / 255.0, x_test=pixels(6) / 255.0), "be done"),
    "NaN": Variant(partial(_npz, x_train=np.full((20, 8, 8), np.nan)), REFUSED),
    "infinite": Variant(partial(_npz, x_train=np.full((20, 8, 8), np.inf)), REFUSED),
    "values of 300": Variant(partial(_npz, x_train=np.full((20, 8, 8), 300.0)), REFUSED),
    "negative": Variant(partial(_npz, x_train=np.full((20, 8, 8), -1)), REFUSED),
    "text": Variant(partial(_npz, x_train=np.array(["a"] * 20)), REFUSED),
    "complex numbers": Variant(partial(_npz, x_train=pixels().astype(complex)), REFUSED),
    "dates": Variant(partial(_npz, x_train=np.zeros((20, 8, 8), "datetime64[s]")), REFUSED),
    "records": Variant(partial(_npz, x_train=np.zeros((20, 8, 8), [("a", "u1")])), REFUSED),
    "objects": Variant(partial(_npz, x_train=np.array([Payload()] * 20, dtype=object)), REFUSED),
    "five dimensions": Variant(partial(_npz, x_train=np.zeros((20, 8, 8, 1, 1), np.uint8)), REFUSED),
    "no dimension": Variant(partial(_npz, x_train=np.uint8(3)), REFUSED),
    "no pixels": Variant(partial(_npz, x_train=np.zeros((20, 0, 8), np.uint8)), REFUSED),
    "no images": Variant(partial(_npz, x_train=np.zeros((0, 8, 8), np.uint8), y_train=labels(0)), REFUSED),
    "four channels": Variant(partial(_npz, x_train=np.zeros((20, 8, 8, 4), np.uint8)), REFUSED),
    "fewer labels": Variant(partial(_npz, y_train=labels(19)), REFUSED),
    "labels of floats": Variant(partial(_npz, y_train=labels() + 0.5), REFUSED),
    "negative labels": Variant(partial(_npz, y_train=labels() - 1), REFUSED),
    "labels with a gap": Variant(partial(_npz, y_train=labels() * 5), REFUSED),
    "huge labels": Variant(partial(_npz, y_train=labels() * 2**40), REFUSED),
    "one class": Variant(partial(_npz, y_train=labels() * 0, y_test=labels(6) * 0), REFUSED),
    "one image per class": Variant(
        partial(_npz, x_train=pixels(2), y_train=labels(2), x_test=None, y_test=None),
        REFUSED,
    ),
    "unseen test class": Variant(partial(_npz, y_test=labels(6) + 1), REFUSED),
    "labels [N, 2]": Variant(partial(_npz, y_train=np.zeros((20, 2), int)), REFUSED),
    "no y_train": Variant(partial(_npz, y_train=None), REFUSED),
    "no x_train": Variant(partial(_npz, x_train=None), REFUSED),
    "x_test alone": Variant(partial(_npz, y_test=None), REFUSED),
    "raw bytes": Variant(lambda path: _raw_npz(path, b"raw bytes"), REFUSED),
    "no bytes": Variant(lambda path: _raw_npz(path, b""), REFUSED),
    "a broken header": Variant(lambda path: _raw_npz(path, _header(b"{'descr': '|u1', 'fortran_order'")), REFUSED),
    "a header that calls": Variant(lambda path: _raw_npz(path, _header(b"__import__('os').mkdir('pwned')\n")), REFUSED),
    "a header of a million bytes": Variant(lambda path: _raw_npz(path, _header(b"[" * 60_000)), REFUSED),
    "a shape of 10^18": Variant(
        lambda path: _raw_npz(
            path, _header(b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d, 8, 8)}\n" % 10**18)
        ),
        REFUSED,
    ),
    "a negative shape": Variant(
        lambda path: _raw_npz(path, _header(b"{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 8, 8)}\n")),
        REFUSED,
    ),
    "a bomb": Variant(lambda path: _zip_bomb(path, 6 << 30), REFUSED),
    "a bare array": Variant(partial(_write, content=_npy(pixels())), REFUSED),
    "a pickle": Variant(partial(_write, content=pickle.dumps(Payload())), REFUSED),
    "nothing": Variant(partial(_write, content=b""), REFUSED),
    "half": Variant(lambda path: _half(path / "data.npz"), REFUSED),
    "a folder": Variant(lambda path: (path / "data.npz").mkdir(), REFUSED),
    "a pipe": Variant(lambda path: os.mkfifo(path / "data.npz"), REFUSED),
    "endless": Variant(lambda path: (path / "data.npz").symlink_to("/dev/zero"), REFUSED),
}


def _zip_bomb(path: Path, size: int) -> None:
    """Zeros that announce themselves: a small file for gigabytes."""
    header = _shaped(size // 64)
    with zipfile.ZipFile(path / "data.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("x_train.npy", header + bytes(1 << 20))
        archive.writestr("y_train.npy", _npy(labels()))


def _half(path: Path) -> None:
    _npz(path.parent)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
