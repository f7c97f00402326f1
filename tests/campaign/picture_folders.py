"""Folders of pictures, sound but for one thing."""

import io
import os
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.campaign.samples import REFUSED, Variant, then


def _picture(mode: str = "RGB", size: tuple[int, int] = (9, 9)) -> Image.Image:
    return Image.new(mode, size, 1)


def _saved(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def _folder(path: Path, name: str = "", content: bytes = b"") -> None:
    random = np.random.default_rng(1)
    for label in ("cat", "dog"):
        (path / "data" / label).mkdir(parents=True)
        for number in range(5):
            values = random.integers(0, 256, (9, 9, 3), dtype=np.uint8)
            Image.fromarray(values).save(path / "data" / label / f"{number}.png")
    if name:
        place = os.fsencode(path / "data") + b"/" + os.fsencode(name)
        os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120  names may be no text
        with open(place, "wb") as file:  # noqa: PTH123
            file.write(content)


def _few(path: Path, count: int) -> None:
    """One class more, of so many pictures."""
    _folder(path)
    for number in range(count):
        _folder_file(path / "data" / "fish" / f"{number}.png")


def _own_test(path: Path, count: int) -> None:
    """Pictures below train/ and test/, one class of so many training pictures."""
    for part in ("train", "test"):
        for label, pictures in (("cat", 5), ("fish", count if part == "train" else 1)):
            for number in range(pictures):
                _folder_file(path / "data" / part / label / f"{number}.png")


def _folder_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_GOOD)


def _bomb() -> bytes:
    """A header that announces 60,000 × 60,000 pixels."""
    whole = bytearray(_saved(_picture("L")))
    whole[16:24] = struct.pack(">2I", 60_000, 60_000)
    return bytes(whole)


_GOOD = _saved(_picture())
FOLDER: dict[str, Variant] = {
    "sound": Variant(_folder, "be done"),
    "an empty file": Variant(partial(_folder, name="cat/x.png"), REFUSED),
    "text": Variant(partial(_folder, name="cat/x.jpg", content=b"no image"), REFUSED),
    "half a picture": Variant(partial(_folder, name="cat/x.png", content=_GOOD[: len(_GOOD) // 2]), REFUSED),
    "a bomb": Variant(partial(_folder, name="cat/x.png", content=_bomb()), REFUSED),
    "floats": Variant(partial(_folder, name="cat/x.tiff", content=_saved(_picture("F"), "TIFF")), REFUSED),
    "a loose picture": Variant(partial(_folder, name="x.png", content=_GOOD), REFUSED),
    "a class of one picture": Variant(partial(_folder, name="fish/x.png", content=_GOOD), REFUSED),
    "a class of two pictures": Variant(partial(_few, count=2), REFUSED),
    "a class of three pictures": Variant(partial(_few, count=3), "be done"),
    "a class of one picture, with a test folder": Variant(partial(_own_test, count=1), REFUSED),
    "a class of two pictures, with a test folder": Variant(partial(_own_test, count=2), "be done"),
    "transparency": Variant(partial(_folder, name="cat/x.png", content=_saved(_picture("RGBA", (9, 9)))), "be done"),
    "16 bits": Variant(partial(_folder, name="cat/x.png", content=_saved(_picture("I;16"))), "be done"),
    "CMYK": Variant(partial(_folder, name="cat/x.jpg", content=_saved(_picture("CMYK"), "JPEG")), "be done"),
    "one pixel": Variant(partial(_folder, name="cat/x.png", content=_saved(_picture("L", (1, 1)))), "be done"),
    "a name that is no text": Variant(partial(_folder, name="cat/\udcff\udc80.png", content=_GOOD), "end well"),
    "a class that is no text": Variant(partial(_folder, name="\udcff/x.png", content=_GOOD), REFUSED),
    "a name with terminal codes": Variant(partial(_folder, name="cat/\x1b[2J\u2028.png", content=b"x"), REFUSED),
    "a damaged name that is no text": Variant(partial(_folder, name="cat/\udcff.png", content=b"x"), REFUSED),
    "a hidden file": Variant(partial(_folder, name="cat/.x.png", content=b"x"), "be done"),
    "a pipe": Variant(then(_folder, lambda path: os.mkfifo(path / "data" / "cat" / "x.png")), REFUSED),
    "a device": Variant(then(_folder, lambda path: (path / "data/cat/x.png").symlink_to("/dev/zero")), REFUSED),
    "a link to nothing": Variant(then(_folder, lambda path: (path / "data/cat/x.png").symlink_to("no")), REFUSED),
    "a link round": Variant(then(_folder, lambda path: (path / "data/cat/up").symlink_to("..")), "be done"),
    "a folder like a picture": Variant(then(_folder, lambda path: (path / "data/cat/x.png").mkdir()), "be done"),
    "no class": Variant(lambda path: (path / "data").mkdir(), REFUSED),
}
