"""Results of timing kits, sound but for one thing, and kits that are written where they cannot be."""

import shutil
import tempfile
from functools import partial
from pathlib import Path
from random import Random

from tests.campaign.case import Case
from tests.campaign.damage import Damage, draw_damage
from tests.campaign.player import fork_server, run

KITS = "kits"
_STAGES = ("profile", "discretize", "export")


def draw(random: Random) -> Case:
    """The result of a kit, spoiled; what an edit of a time must come to is the stage's to say."""
    stage = random.choice(_STAGES)
    if random.random() < 0.08:
        return Case("kits", f"{stage}, sound", (stage, "--from-kit", "kit_result.json"), partial(_place, stage=stage))
    name, damage = draw_damage(random, is_json=True)
    change = partial(_place, stage=stage, damage=damage)
    return Case("kits", f"{stage}, {name}", (stage, "--from-kit", "kit_result.json"), change)


def _place(project: Path, stage: str, damage: Damage | None = None) -> None:
    result = project / "kit_result.json"
    result.write_bytes((project / KITS / f"{stage}.json").read_bytes())
    if damage is not None:
        damage(result)


def measure_kits(project: Path) -> None:
    """A kit of every stage, written and measured once, as a target would."""
    (project / KITS).mkdir()
    for stage in _STAGES:
        with tempfile.TemporaryDirectory() as place:
            for case in (
                Case("kits", "written", (stage, "--write-kit", f"{place}/kit")),
                Case("kits", "measured", (), script=f"{place}/kit/time_kit.py"),
            ):
                ending = run(case, project, Path(place), fork_server())
                if ending.code:
                    raise RuntimeError(f"{case}: {ending.stderr}")
            shutil.copy(f"{place}/kit/kit_result.json", project / KITS / f"{stage}.json")
