"""Which image files a folder has, which class each is of, and to which part of the data it belongs."""

import os
from pathlib import Path, PurePath
from typing import NamedTuple

from pipeline.data.decode import SUFFIXES
from pipeline.errors import UserError

_PARTS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}


class ImageFile(NamedTuple):
    """A file and its class."""

    path: Path
    label: str


class Listing(NamedTuple):
    """The files of each part, sorted by name; empty where the folder has no such part."""

    train: list[ImageFile]
    validation: list[ImageFile]
    test: list[ImageFile]


def list_images(root: Path) -> Listing:
    """The images below `root`.

    A class is the topmost folder on the way to an image that holds images itself, named by its path (`animals/cat`).
    Folders named train, val and test are parts, if nothing else lies beside them; val alone serves as the test set.
    """
    found = _walk(root)
    if not found:
        raise UserError(f"there is no image in {root}; [data] path must hold one folder of images per class")
    if not (tops := {name.parts[0].lower() for name in found}) <= set(_PARTS):
        return Listing(_label(root, found, 0), [], [])
    by_part: dict[str, list[PurePath]] = {"train": [], "validation": [], "test": []}
    for name in found:
        by_part[_PARTS[name.parts[0].lower()]].append(name)
    if not by_part["train"]:
        raise UserError(f"{root} has only {', '.join(sorted(tops))}; a train folder belongs beside it ([data] path)")
    ordered = _label(root, [name for part in by_part.values() for name in part], 1)
    train, validation = len(by_part["train"]), len(by_part["validation"])
    listing = Listing(ordered[:train], ordered[train : train + validation], ordered[train + validation :])
    return listing if listing.test else Listing(listing.train, [], listing.validation)


def find_empty_folders(files: list[Path]) -> list[Path]:
    """Folders beside those that hold the files, without any of them in or below: classes that were forgotten."""
    full = {folder for file in files for folder in file.parents}
    beside = (folder for place in {file.parent.parent for file in files} for folder in place.iterdir())
    return sorted(path for path in beside if path.is_dir() and path not in full and not path.name.startswith("."))


def _label(root: Path, names: list[PurePath], depth: int) -> list[ImageFile]:
    """The class of each file, from its path without the first `depth` folders."""
    homes = {PurePath(*name.parts[depth:-1]) for name in names}
    files = []
    for name in names:
        home = PurePath(*name.parts[depth:-1])
        if not home.parts:
            raise UserError(
                f"the image {root / name} is in no class folder; put the images of each class in a folder of its own"
            )
        label = next(
            PurePath(*home.parts[:n]) for n in range(1, len(home.parts) + 1) if PurePath(*home.parts[:n]) in homes
        )
        files.append(ImageFile(root / name, label.as_posix()))
    return files


def _walk(root: Path) -> list[PurePath]:
    """Names relative to `root`, sorted; links are followed, hidden files and other kinds of files left out."""
    names: list[PurePath] = []
    try:
        for folder, subfolders, files in os.walk(root, onerror=_raise, followlinks=True):
            here = Path(folder)
            subfolders[:] = [name for name in subfolders if not name.startswith(".") and not _loops(here / name)]
            images = [name for name in files if not name.startswith(".") and PurePath(name).suffix.lower() in SUFFIXES]
            names += [(here / name).relative_to(root) for name in images]
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror} ([data] path)") from None
    return sorted(names, key=lambda name: name.as_posix())


def _raise(error: OSError) -> None:
    raise error


def _loops(folder: Path) -> bool:
    """Whether a linked folder leads back above itself."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())
