"""Files of a finished run, spoiled one at a time; then a command that reads them."""

from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.campaign.case import Case, Must
from tests.campaign.damage import Damage, draw_damage


class Target(NamedTuple):
    """A file, commands that must refuse it once it is spoiled, and commands that must end well with it."""

    pattern: str
    refusing: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


_ALWAYS = ("list", "report", "inspect --run default")
_TARGETS = (
    Target("runs/default/search/alphas.safetensors", ("discretize",), (*_ALWAYS, "search", "rank")),
    Target("runs/default/search/judged.safetensors", ("discretize",), (*_ALWAYS, "search")),
    Target("runs/default/search/weights.safetensors", (), (*_ALWAYS, "search", "discretize")),
    Target("runs/default/search/record.json", (), (*_ALWAYS, "search", "discretize")),
    Target("runs/default/search/history.jsonl", (), _ALWAYS),
    Target("runs/default/discretize/genotype.json", ("retrain", "export"), _ALWAYS),
    Target("runs/default/discretize/certificate.json", ("export",), (*_ALWAYS, "retrain")),
    Target("runs/default/discretize/selection.json", (), (*_ALWAYS, "discretize")),
    Target("runs/default/discretize/record.json", (), (*_ALWAYS, "discretize", "retrain")),
    Target("runs/default/retrain/weights.safetensors", ("export",), (*_ALWAYS, "retrain")),
    Target("runs/default/retrain/metrics.json", ("export",), (*_ALWAYS, "retrain")),
    Target("runs/default/retrain/mistakes.json", (), (*_ALWAYS, "retrain")),
    Target("runs/default/retrain/record.json", (), (*_ALWAYS, "export", "retrain")),
    Target("runs/default/retrain/history.jsonl", (), _ALWAYS),
    Target("runs/default/export/record.json", (), (*_ALWAYS, "export")),
    Target("runs/default/profile/record.json", (), (*_ALWAYS, "search", "profile")),
    Target("runs/default/report/part_times.json", (), _ALWAYS),
    Target("runs/default/config.toml", (), _ALWAYS),
    Target("runs/default/environment.json", (), _ALWAYS),
    Target("runs/default/splits.json", (), _ALWAYS),
    Target("runs/default/identity", (), (*_ALWAYS, "export")),
    Target("runs/default/log.txt", (), (*_ALWAYS, "search --epochs 1")),
    Target("latency_tables/*.json", ("search --table {}", "inspect --run default --table {}"), (*_ALWAYS, "search")),
    Target("exports/default/model.json", (), (*_ALWAYS, "export")),
    Target("exports/default/model.onnx", (), (*_ALWAYS, "export", "bench {}")),
    Target("exports/default/labels.txt", (), (*_ALWAYS, "export")),
)


def draw(random: Random) -> Case:
    """One file, spoiled in one way."""
    target = random.choice(_TARGETS)
    name, damage = draw_damage(random, target.pattern.endswith(".json"))
    refused = bool(target.refusing) and random.random() < 0.5
    command = random.choice(target.refusing if refused else target.others)
    must: Must = "be refused" if refused else "end well"
    change = partial(_spoil, pattern=target.pattern, damage=damage)
    arguments = tuple(_fill(command, target.pattern).split("|"))
    return Case("artifacts", f"{target.pattern} {name}", arguments, change, must)


def _fill(command: str, pattern: str) -> str:
    return command.replace(" ", "|").replace("{}", "spoiled" if "*" in pattern else pattern)


def _spoil(project: Path, pattern: str, damage: Damage) -> None:
    (path,) = project.glob(pattern)
    if "*" in pattern:
        (project / "spoiled").write_bytes(path.read_bytes())
        damage(project / "spoiled")
    damage(path)
