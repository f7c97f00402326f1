"""The smallest finished project: every case spoils a copy of it."""

from collections.abc import Callable
from pathlib import Path

from tests.campaign.case import Case, leave
from tests.campaign.player import fork_server, run

SETTINGS = """\
[data]
format = "digits"
resolution = 8
augment = "none"
[compute]
threads = 1
[target]
space = "nasbench201"
cells = 3
channels = 4
budget_ms = 1.0
max_noise_floor = 0.99
[profile]
rounds = 2
copies = 2
calibration_networks = 3
validate_networks = 0
[search]
method = "first-order"
cells = 3
channels = 4
epochs = 1
batch_size = 256
inner_steps = 1
warmup_share = 0.0
allow_unvalidated = true
[discretize]
evidence_minutes = 0.0
evaluations = 4
[retrain]
epochs = 1
batch_size = 256
auxiliary = 0.0
"""


def finish_project(project: Path, prepare: Callable[[Path], None] = leave) -> Path:
    """All five stages, once."""
    project.mkdir(parents=True)
    (project / "pipeline.toml").write_text(SETTINGS)
    prepare(project)
    ending = run(Case("project", "whole", ("run",)), project, project.parent, fork_server())
    if ending.code:
        raise RuntimeError(f"the project cannot be made: {ending.stderr}")
    return project


def change_setting(project: Path, section: str, name: str, value: str) -> None:
    """Set a setting to a value in TOML notation, whatever it is."""
    path = project / "pipeline.toml"
    lines = path.read_text().splitlines()
    start = lines.index(f"[{section}]") if f"[{section}]" in lines else len(lines)
    if start == len(lines):
        lines.append(f"[{section}]")
    end = next((n for n in range(start + 1, len(lines)) if lines[n].startswith("[")), len(lines))
    kept = [line for line in lines[start + 1 : end] if line.split(" = ")[0] != name]
    path.write_text("\n".join([*lines[: start + 1], *kept, f"{name} = {value}", *lines[end:]]) + "\n")
