"""A run on disk: every path named once, the names of runs and budgets, and who is using the run."""

import difflib
import fcntl
import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipeline.errors import UserError
from pipeline.whole_files import sweep_parts, write_text

DEFAULT_RUN = "default"
_MOST_NAMED = 10
_LOCK = ".lock"
_DECISIONS = ("genotype", "refusal")
_BUDGETED = ("discretize", "retrain", "export")  # stages with a folder for each of several budgets
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class _Place:
    """A path of a run, below the project."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __get__(self, run: "RunDir", kind: object = None) -> Path:
        folder, suffix = (f"{run.budget}/", f"-{run.budget}") if run.budget else ("", "")
        return run.project / self._pattern.format(name=run.name, budget=folder, suffix=suffix)


@dataclass(frozen=True)
class RunDir:
    """The folders and files of one run of the project in `project` (the folder of pipeline.toml).

    Where a run has networks for several budgets, `budget` names the one that is trained and exported beside the others.
    """

    project: Path
    name: str
    budget: str = ""

    root = _Place("runs/{name}")
    identity_file = _Place("runs/{name}/identity")
    config = _Place("runs/{name}/config.toml")
    working_config = _Place("runs/{name}/working.toml")  # of a stage under way; config.toml has it once that is done
    flags = _Place("runs/{name}/flags.json")  # given on the command line; later commands of the same run keep to them
    log = _Place("runs/{name}/log.txt")
    environment = _Place("runs/{name}/environment.json")
    splits = _Place("runs/{name}/splits.json")
    alphas = _Place("runs/{name}/search/alphas.safetensors")
    supernet_weights = _Place("runs/{name}/search/weights.safetensors")
    judged = _Place("runs/{name}/search/judged.safetensors")
    genotype = _Place("runs/{name}/discretize/{budget}genotype.json")
    selection = _Place("runs/{name}/discretize/{budget}selection.json")
    evidence = _Place("runs/{name}/discretize/evidence.jsonl")  # the short trainings behind a selection
    certificate = _Place("runs/{name}/discretize/{budget}certificate.json")
    weights = _Place("runs/{name}/retrain/{budget}weights.safetensors")
    metrics = _Place("runs/{name}/retrain/{budget}metrics.json")
    learned_images = _Place("runs/{name}/retrain/{budget}autodo.safetensors")
    suspects = _Place("runs/{name}/retrain/{budget}suspects.json")
    suspect_sheet = _Place("runs/{name}/retrain/{budget}suspects.png")
    weight_picture = _Place("runs/{name}/retrain/{budget}weights.png")
    mistakes = _Place("runs/{name}/retrain/{budget}mistakes.json")  # test images that the network is most wrong about
    taught_teacher = _Place("runs/{name}/teach/weights.safetensors")
    comparison = _Place("runs/{name}/compare/{budget}comparison.json")
    part_times = _Place("runs/{name}/report/{budget}part_times.json")
    report = _Place("runs/{name}/report{suffix}.html")
    exported_report = _Place("exports/{name}{suffix}/report.html")
    exports = _Place("exports/{name}{suffix}")
    model = _Place("exports/{name}{suffix}/model.onnx")
    int8_model = _Place("exports/{name}{suffix}/model.int8.onnx")
    model_card = _Place("exports/{name}{suffix}/model.json")
    labels = _Place("exports/{name}{suffix}/labels.txt")
    predict_script = _Place("exports/{name}{suffix}/predict.py")
    tables = _Place("latency_tables")

    def __post_init__(self) -> None:
        if not _is_name(self.name):
            raise UserError(f"{self.name!r} cannot name a run: use letters, digits, dots, dashes and underscores")

    @property
    def flag(self) -> str:
        """What a command line needs to name this run."""
        return "" if self.name == DEFAULT_RUN else f" --run {self.name}"

    def call(self, command: str) -> str:
        """A command with the flags that name this run, and the budget where it takes one of several."""
        budget = f" --budget-ms {self.budget.removesuffix('ms')}" if self.budget and command in _BUDGETED[1:] else ""
        return f"{command}{self.flag}{budget}"

    def identity(self) -> str:
        """A name for this run alone, which stays with it when the project moves."""
        if not self.identity_file.is_file():
            write_text(self.identity_file, uuid.uuid4().hex)
        return self.identity_file.read_text(encoding="utf-8", errors="replace").strip()

    def folder(self, stage: str) -> Path:
        """Where a stage keeps what it makes."""
        folder = self.root / stage
        return folder / self.budget if stage in _BUDGETED else folder

    def record(self, stage: str) -> Path:
        """What a finished stage read and wrote."""
        return self.folder(stage) / "record.json"

    def history(self, stage: str) -> Path:
        return self.folder(stage) / "history.jsonl"

    def latest_config(self) -> Path:
        """That of the stage that is under way, or of the last one that was done."""
        return self.working_config if self.working_config.is_file() else self.config

    def latest_history(self, stage: str) -> Path:
        """That of the work that is done, or of the first that is under way."""
        working, done = self.checkpoints(stage) / "history.jsonl", self.history(stage)
        return working if working.is_file() and not done.is_file() else done

    def checkpoints(self, stage: str) -> Path:
        """The state of a stage under way; it goes when the stage is done."""
        return self.folder(stage) / "checkpoint"

    def tensorboard(self, stage: str) -> Path:
        return self.folder(stage) / "tensorboard"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process; a second one is refused. The system lets go when the process dies.

        A run that is as empty afterwards as it was before leaves no trace.
        """
        missing = [folder for folder in (self.root, self.root.parent) if not folder.exists()]
        self.root.mkdir(parents=True, exist_ok=True)
        lock = self.root / _LOCK
        with _open_lock(lock) as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"the run {self.name!r} is in use by another process; wait for it or use --run"
                ) from None
            for folder in (self.root, self.tables, self.exports.parent):
                sweep_parts(folder)
            try:
                yield
            finally:
                if missing and list(self.root.iterdir()) == [lock]:
                    lock.unlink()
                    for folder in missing:
                        with suppress(OSError):
                            folder.rmdir()


def _open_lock(path: Path) -> IO[bytes]:
    """The file that is locked; opening a pipe in its place would wait for ever."""
    handle = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666), "rb", buffering=0)
    if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
        handle.close()
        raise UserError(f"{path} is not a file; delete it, the next command makes it anew")
    return handle


def expand_home(text: str, setting: str) -> Path:
    """A path as a person writes it, with ~ for a home."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UserError(f"{setting} = {text!r} names the home of a user who has none here") from None


def run_names(project: Path) -> list[str]:
    """The runs of a project in order of their names."""
    folder = project / "runs"
    found = [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    return sorted(name for name in found if _is_name(name))


def refuse_misspelt(run: RunDir) -> None:
    """Refuse a run of which nothing is there where there are others, the nearest of which are named."""
    if run.root.is_dir() and any(path.name != _LOCK for path in run.root.iterdir()):
        return
    others = [name for name in run_names(run.project) if name != run.name]
    if others:
        near = difflib.get_close_matches(run.name, others, n=_MOST_NAMED, cutoff=0.0)
        more = ", …" if len(others) > len(near) else ""
        raise UserError(f"there is no run {run.name!r}; there are: {', '.join(near)}{more}")


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and ".." not in name


def budget_name(budget_ms: float) -> str:
    """The folder of one of several budgets."""
    return f"{budget_ms:g}ms"


def budget_folders(folder: Path) -> set[Path]:
    """The folders of all budgets that `discretize` has decided, for or against."""
    return {one for one in folder.glob("*ms") if any((one / f"{name}.json").is_file() for name in _DECISIONS)}


def refused_budgets(run: RunDir) -> list[float]:
    """Those of several budgets that no network keeps, in rising order."""
    refused = (one for one in budget_folders(run.genotype.parent) if not (one / run.genotype.name).is_file())
    return sorted(float(one.name.removesuffix("ms")) for one in refused)
