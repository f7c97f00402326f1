"""Data of every format, sound but for one thing; then `pipeline check`."""

from functools import partial
from pathlib import Path
from random import Random

from tests.campaign.batch_files import CIFAR, IDX
from tests.campaign.case import Case
from tests.campaign.npz_files import NPZ
from tests.campaign.picture_folders import FOLDER
from tests.campaign.project import change_setting
from tests.campaign.samples import REFUSED, Make, Variant

_FORMATS: dict[str, tuple[str, dict[str, Variant]]] = {
    "npz": ("data.npz", NPZ),
    "idx": ("data", IDX),
    "cifar10": ("data", CIFAR),
    "folder": ("data", FOLDER),
}


def draw(random: Random) -> Case:
    """Data of one format with one thing about it."""
    kind = random.choices(list(_FORMATS), [4, 2, 2, 4])[0]
    place, variants = _FORMATS[kind]
    name = random.choice(list(variants))
    make, must = variants[name]
    change = partial(_place, kind=kind, place=place, make=make)
    command = "check" if random.random() < 0.9 or must == "end well" else "retrain"
    if command == "retrain":  # the network is for other data
        must = REFUSED
    return Case("images", f"{kind}: {name}", (command,), change, must)


def _place(project: Path, kind: str, place: str, make: Make) -> None:
    change_setting(project, "data", "format", f'"{kind}"')
    change_setting(project, "data", "path", f'"{place}"')
    make(project)
