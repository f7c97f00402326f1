"""The disk is full, the folder may not be written, the process is killed: at any touch of the project."""

from functools import partial
from pathlib import Path
from random import Random

from tests.campaign.case import Case, Limits
from tests.campaign.project import change_setting

_ERRORS = ("ENOSPC", "EROFS", "EACCES", "EIO", "EDQUOT", "EMFILE")
# a setting that makes each stage run again, and about how often it then touches the project
_AGAIN = {
    "search": ("compute", "seed", "1", 30),
    "discretize": ("discretize", "evaluations", "5", 25),
    "retrain": ("retrain", "weight_decay", "0.001", 30),
    "export": ("export", "max_accuracy_loss", "0.5", 35),
    "profile": ("profile", "rounds", "3", 20),
}
_TURNS = {"search": 4, "retrain": 5, "discretize": 2, "export": 1, "profile": 1}


def draw(random: Random) -> Case:
    """A stage that must be made again, with one fault on the way; no half-written file may be left."""
    stage = random.choices(list(_TURNS), list(_TURNS.values()))[0]
    section, setting, value, touches = _AGAIN[stage]
    change = partial(_set, section=section, setting=setting, value=value)
    if random.random() < 0.15:
        limits = Limits(file_bytes=random.choice([4096, 8192, 20_000]))
        return Case("faults", f"files of at most {limits.file_bytes} bytes", (stage,), change, limits=limits)
    limits = Limits(fault=random.choice(_ERRORS), fault_at=random.randint(1, touches))
    return Case("faults", f"{limits.fault} at touch {limits.fault_at}", (stage,), change, limits=limits)


def _set(project: Path, section: str, setting: str, value: str) -> None:
    change_setting(project, section, setting, value)
