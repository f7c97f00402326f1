"""Two stages that only copy their inputs, and a run of them."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.artifacts.alphas import Alphas
from pipeline.artifacts.files import Images
from pipeline.artifacts.trained import Trained
from pipeline.presets import preset
from pipeline.rundir import RunDir
from pipeline.runner import artifacts, execution
from pipeline.stages import Stage
from pipeline.stages.context import Context
from pipeline.stages.retrain import check_learning
from pipeline.whole_files import write_text

FIRST = Stage("search", ("search", "data", "compute.workers"), (Images,), (Alphas,), shared=True)
SECOND = Stage("retrain", ("retrain",), (Alphas,), (Trained,))


class Calls(list[str]):
    """The names of the stages that ran."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()

    def module(stage: Stage) -> SimpleNamespace:
        def run(context: Context) -> None:
            found.append(stage.name)
            content = (
                f"epochs {context.config.search.epochs}" if stage is FIRST else f"from {context.run.alphas.read_text()}"
            )
            write_text(getattr(context.run, stage.writes[0].name), content)

        return SimpleNamespace(run=run, check_learning=check_learning)

    for place in (execution, artifacts):
        monkeypatch.setattr(place, "stages_of", lambda _: (FIRST, SECOND))
    monkeypatch.setattr(execution, "_module", module)
    return found


def context(folder: Path, run: str = "one", **search: int) -> Context:
    config = preset("digits")
    changed = config.model_copy(update={"search": config.search.model_copy(update=search)})
    return Context(changed, RunDir(folder, run))


def contents(folder: Path) -> dict[Path, bytes]:
    """All files but the log, which tells of interruptions too."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "log.txt"}
