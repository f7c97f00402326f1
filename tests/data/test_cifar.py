"""CIFAR's pickles: read without calling anything, whoever wrote them."""

import os
import pickle
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.config import DataConfig
from pipeline.data import load_data
from pipeline.data.unpickle import unpickle
from pipeline.errors import UserError

RANDOM = np.random.default_rng(1)
PIXELS = RANDOM.integers(0, 256, (20, 3072), dtype=np.uint8)
LABELS = [number % 10 for number in range(20)]
NAMES = [b"airplane", b"automobile", b"bird", b"cat", b"deer", b"dog", b"frog", b"horse", b"ship", b"truck"]
CIFAR10 = DataConfig(format="cifar10", path=".", resolution=32, colour=True)


def write_cifar10(folder: Path, protocol: int = 2) -> None:
    folder.mkdir(exist_ok=True)
    for name in [f"data_batch_{number}" for number in range(1, 6)]:
        record = {b"batch_label": name.encode(), b"labels": LABELS, b"data": PIXELS, b"filenames": [b"a.png"] * 20}
        (folder / name).write_bytes(pickle.dumps(record, protocol))
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": PIXELS[::-1].copy(), b"labels": LABELS[::-1]}, protocol))
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": NAMES, b"num_vis": 3072}, protocol))


@pytest.mark.parametrize("protocol", range(6))
def test_cifar10_of_any_pickle_protocol(tmp_path: Path, protocol: int) -> None:
    write_cifar10(tmp_path, protocol)
    data = load_data(CIFAR10, tmp_path, 0)
    assert data.labels[:2] == ("airplane", "automobile") and len(data.train_all) == 100 and len(data.test) == 20
    for position in range(20):
        image, label = data.test[position]
        red, green, blue = PIXELS[19 - position].reshape(3, 32, 32)
        np.testing.assert_array_equal(image.numpy(), np.stack([red, green, blue]))
        assert label == LABELS[19 - position]


def test_what_python_2_wrote_is_read() -> None:
    """The original files: byte strings as SHORT_BINSTRING, arrays with Python 2's names for numpy's internals."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01bt"
        + b"R(K\x01(K\x01K\x03tcnumpy\ndtype\n(U\x02u1K\x00K\x01tR"
        + b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        + b"\x89U\x03abctb"
    )
    record = unpickle(b"\x80\x02}(U\x04data" + array + b"U\x06labels]K\x07au.")
    assert record["data"].tolist() == [[97, 98, 99]] and record["labels"] == [7]


def test_cifar100_in_the_folder_of_its_archive(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    names = [f"class {number}" for number in range(10)]
    for name in ("train", "test"):
        record = {"data": PIXELS, "fine_labels": LABELS, "coarse_labels": [0] * 20}
        (folder / name).write_bytes(pickle.dumps(record))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names, "coarse_label_names": []}))
    data = load_data(CIFAR10.model_copy(update={"format": "cifar100"}), tmp_path, 0)
    assert data.labels == tuple(names) and data.test[3][1] == 3


class Call:
    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


def attacks(target: Path) -> dict[str, Any]:
    command = f"touch {target}"
    return {
        "os.system": Call(os.system, command),
        "eval": Call(eval, f"open({str(target)!r}, 'w')"),
        "exec": Call(exec, f"open({str(target)!r}, 'w')"),
        "getattr": Call(getattr, "text", "upper"),
        "numpy.load": Call(np.load, str(target)),
        "numpy function": Call(np.frombuffer, b"abc"),
        "touch": Call(Path.touch, target),
        "object array": np.array([Call(os.system, command)], dtype=object),
        "deque": deque([1]),
        "complex": 1j,
        "function": os.system,
    }


@pytest.mark.parametrize("attack", list(attacks(Path())))
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_that_calls_anything_is_refused(tmp_path: Path, attack: str, protocol: int) -> None:
    write_cifar10(tmp_path)
    target = tmp_path / "sprung"
    record = {b"data": PIXELS, b"labels": LABELS, b"extra": attacks(target)[attack]}
    (tmp_path / "data_batch_3").write_bytes(pickle.dumps(record, protocol))
    with pytest.raises(UserError, match="data_batch_3 is refused") as caught:
        load_data(CIFAR10, tmp_path, 0)
    assert not target.exists() and "\n" not in str(caught.value)
    assert attack == "object array" or "this file has a call of " in str(caught.value)


@pytest.mark.parametrize(
    "program",
    [
        b"cnumpy\nndarray\n}(U\x01aK\x01ub.",  # new attributes for a stand-in class
        b"c_codecs\nencode\n(N}(U\x0b__kwdefaults__}utb.",
        b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x04\x00\x00\x00zlibtR.",
        b"cnumpy\ndtype\n(U\x02O8tR.",
        b"cnumpy._core.numeric\n_frombuffer\n(U\x03abccnumpy\ndtype\n(U\x02u1tR(J\xff\xff\xff\x7ftU\x01CtR.",
        b"cnumpy.__init__\nndarray\n.",
        b"cpipeline.data.unpickle\nunpickle\n.",
        b"K\x01.",
        b"r\xff\xff\xff\xff.",
        b"",
    ],
)
def test_hand_written_programs_are_refused(program: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError):
        unpickle(b"\x80\x02" + program)


def test_every_truncation_and_many_damages_end_in_one_error() -> None:
    content = pickle.dumps({b"data": PIXELS[:1, :40].copy(), b"labels": [1, 2]}, 2)
    for length in range(len(content)):
        with pytest.raises(pickle.UnpicklingError):
            unpickle(content[:length])
    for place in RANDOM.integers(0, len(content), 400):
        damaged = bytearray(content)
        damaged[place] = RANDOM.integers(0, 256)
        try:
            unpickle(bytes(damaged))
        except pickle.UnpicklingError:
            continue


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({b"labels": LABELS}, "'data' is not an array of bytes"),
        ({b"data": PIXELS[:, :100].copy(), b"labels": LABELS}, "3072 per image"),
        ({b"data": PIXELS.astype(np.float32), b"labels": LABELS}, "array of bytes"),
        ({b"data": PIXELS}, "no list 'labels'"),
        ({b"data": PIXELS, b"labels": [0.5] * 20}, "whole numbers"),
        ({b"data": PIXELS, b"labels": LABELS[1:]}, "20 images but 19 labels"),
        ({b"data": PIXELS, b"labels": [10, *LABELS[1:]]}, "10 classes"),
        ([1], "a list where a dict belongs"),
    ],
)
def test_bad_batches(tmp_path: Path, record: Any, sentence: str) -> None:
    write_cifar10(tmp_path)
    (tmp_path / "data_batch_2").write_bytes(pickle.dumps(record, 2))
    with pytest.raises(UserError, match=sentence) as caught:
        load_data(CIFAR10, tmp_path, 0)
    assert "data_batch_2" in str(caught.value)


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    (tmp_path / "data_batch_4").unlink()
    with pytest.raises(UserError, match="data_batch_4"):
        load_data(CIFAR10, tmp_path, 0)
