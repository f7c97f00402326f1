"""Two stages that only copy their inputs, a run of them, and a person who is asked about it."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline import console
from pipeline.artifacts.alphas import Alphas
from pipeline.artifacts.files import Images
from pipeline.artifacts.stage_record import StageRecord
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


def took(folder: Path, stage: str, seconds: float) -> None:
    path = context(folder).run.record(stage)
    StageRecord.read(path).model_copy(update={"seconds": seconds}).write(path)


class Person:
    """Somebody at a terminal who answers what they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
        self.questions: list[str] = []
        self.answer = answer
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
        monkeypatch.setattr(
            console, "console", SimpleNamespace(is_terminal=True, input=self._hear, print=lambda *_, **__: None)
        )

    def _hear(self, question: object) -> str:
        self.questions.append(str(question))
        return self.answer
