"""predict.py of an export: what training refuses it refuses, and it never ends with a traceback."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from tests.campaign.case import Case, Must
from tests.campaign.damage import draw_damage
from tests.campaign.picture_folders import FOLDER

_SCRIPT = "exports/default/predict.py"


def draw(random: Random) -> Case:
    """A folder of pictures with one thing about it, or a spoiled model."""
    if random.random() < 0.3:
        name, damage = draw_damage(random)
        change = partial(_with_model, damage=damage)
        return Case("predictions", f"model, {name}", ("data/cat/0.png",), change, "end well", script=_SCRIPT)
    name = random.choice([*FOLDER, "nowhere", "no argument", "a device"])
    must: Must = "be refused"
    arguments: tuple[str, ...] = ("data",)
    if name in FOLDER:
        make, must = FOLDER[name]
        if name.startswith("a class ") or name in ("a loose picture", "a pipe", "a link to nothing", "a device"):
            must = "end well"  # not among the images of a folder, or an image like any other here: nothing is split
        return Case("predictions", name, arguments, make, must, script=_SCRIPT)
    arguments = {"nowhere": ("nowhere",), "no argument": (), "a device": ("/dev/zero",)}[name]
    return Case("predictions", name, arguments, must=must, script=_SCRIPT)


def _with_model(project: Path, damage: Callable[[Path], None]) -> None:
    FOLDER["sound"].make(project)
    damage(project / "exports" / "default" / "model.onnx")
