"""What a run has to show: every file it left, read with care; what is damaged is said and the rest shown."""

from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pipeline.artifacts.artifact import Typed
from pipeline.artifacts.certificate import Certificate, Refusal
from pipeline.artifacts.comparison import Comparison
from pipeline.artifacts.latency_table import LatencyTable
from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.mistakes import Mistakes
from pipeline.artifacts.model_card import ModelCard
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.part_times import PartTimes
from pipeline.artifacts.selection import Selection
from pipeline.artifacts.stage_record import trained_another
from pipeline.artifacts.suspects import Suspects
from pipeline.config import Config
from pipeline.config_file import read_config
from pipeline.errors import UserError
from pipeline.latency.table import table_name
from pipeline.resumable.history import Scan, scan_history
from pipeline.rundir import RunDir, budget_name, refuse_misspelt
from pipeline.whole_files import read_json

_T = TypeVar("_T", bound=Typed)
_PNG, _LARGEST_PICTURE = b"\x89PNG\r\n\x1a\n", 8_000_000


@dataclass(frozen=True)
class BudgetResult:
    """One of several budgets: its certificate, or what is left of its refusal, and its training if it had one."""

    budget_ms: float
    certificate: Certificate | None
    selection: Selection | None
    metrics: Metrics | None = None


@dataclass(frozen=True)
class Contents:
    """A run as it lies on disk; what is not there is None. `notes` say what could not be read."""

    run: RunDir
    config: Config | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    network: ChosenNetwork | None = None
    selection: Selection | None = None
    certificate: Certificate | None = None
    budgets: tuple[BudgetResult, ...] = ()
    table: LatencyTable | None = None
    table_path: PurePosixPath | None = None
    trials: Scan = field(default_factory=Scan)
    search: Scan = field(default_factory=Scan)
    training: Scan = field(default_factory=Scan)
    metrics: Metrics | None = None
    mistakes: Mistakes | None = None
    suspects: Suspects | None = None
    suspect_sheet: bytes | None = None
    weight_picture: bytes | None = None
    card: ModelCard | None = None
    comparison: Comparison | None = None
    part_times: PartTimes | None = None
    notes: tuple[str, ...] = ()

    def place(self, path: Path) -> PurePosixPath:
        """A file of the project as links name it."""
        return PurePosixPath(path.relative_to(self.run.project).as_posix())


def require_run(run: RunDir) -> None:
    """Refuse a run that does not exist."""
    refuse_misspelt(run)
    if not run.root.is_dir():
        raise UserError(f"there is no run {run.name!r} in {run.root.parent}; `pipeline run` starts one")


class _Reader:
    """Reads what is there, and keeps account of what could not be read."""

    def __init__(self, run: RunDir) -> None:
        self.run, self.notes = run, list[str]()

    def read(self, kind: type[_T], path: Path) -> _T | None:
        if not path.exists():
            return None
        try:
            return kind.read(path, f"{kind.maker}{self.run.flag}")
        except UserError as error:
            self.notes.append(str(error))
            return None

    def json(self, path: Path) -> Any:
        if not path.exists():
            return None
        try:
            return read_json(path)
        except UserError as error:
            self.notes.append(str(error))
            return None

    def picture(self, path: Path) -> bytes | None:
        """A PNG file of a size that a page can carry."""
        if not path.is_file():
            return None
        if path.stat().st_size > _LARGEST_PICTURE or not (content := path.read_bytes()).startswith(_PNG):
            self.notes.append(f"{path} is not a picture of this program, left out here")
            return None
        return content

    def scan(self, path: Path) -> Scan:
        found = scan_history(path)
        if found.unreadable:
            lines = "line" if found.unreadable == 1 else "lines"
            self.notes.append(f"{path} has {found.unreadable} unreadable {lines}, left out here")
        return found

    def config(self, fallback: Path) -> Config | None:
        for path in (self.run.latest_config(), fallback):
            if path.exists():
                try:
                    return read_config(path)
                except UserError as error:
                    self.notes.append(str(error))
        return None

    def budgets(self) -> tuple[BudgetResult, ...]:
        results = []
        for folder in (self.run.root / "discretize").glob("*ms"):
            certificate = self.read(Certificate, folder / "certificate.json")
            refusal = None if certificate else self.read(Refusal, folder / "refusal.json")
            told = certificate or refusal
            if told is not None:
                selection = self.read(Selection, folder / "selection.json")
                trained = trained_for(self.run, told.budget_ms)
                metrics = None if trained is None else self.read(Metrics, trained.metrics)
                results.append(BudgetResult(told.budget_ms, certificate, selection, metrics))
        return tuple(sorted(results, key=lambda result: result.budget_ms))

    def seconds(self) -> dict[str, float]:
        """What each finished stage took, in the order they ended."""
        records = {path.parent.name: self.json(path) for path in self.run.root.glob("*/record.json")}
        known = {
            stage: record
            for stage, record in records.items()
            if isinstance(record, dict) and isinstance(record.get("seconds"), int | float)
        }
        return {
            stage: float(record["seconds"])
            for stage, record in sorted(known.items(), key=lambda item: str(item[1].get("finished", "")))
        }


def trained_for(run: RunDir, budget_ms: float) -> RunDir | None:
    """The run as it has trained the network that is chosen for a budget now; None where it has not."""
    for place in ("", budget_name(budget_ms)):
        own = replace(run, budget=place)
        if own.metrics.is_file() and own.certificate.is_file() and not trained_another(own):
            try:
                if Certificate.read(own.certificate).budget_ms == budget_ms:
                    return own
            except UserError:
                continue  # named where it is read for itself
    return None


def read_contents(run: RunDir, config_path: Path) -> Contents:
    """Everything that a run has left so far."""
    require_run(run)
    reader = _Reader(run)
    config = reader.config(config_path)
    certificate = reader.read(Certificate, run.certificate)
    table_path = _table_path(run, config, certificate)
    environment = reader.json(run.environment)
    contents = Contents(
        run=run,
        config=config,
        environment=environment if isinstance(environment, dict) else {},
        seconds=reader.seconds(),
        network=reader.read(ChosenNetwork, run.genotype),
        selection=reader.read(Selection, run.selection),
        certificate=certificate,
        budgets=reader.budgets(),
        table=None if table_path is None else reader.read(LatencyTable, table_path),
        table_path=_relative(run, table_path),
        trials=reader.scan(run.evidence),
        search=reader.scan(run.latest_history("search")),
        training=reader.scan(run.latest_history("retrain")),
        metrics=reader.read(Metrics, run.metrics),
        mistakes=reader.read(Mistakes, run.mistakes),
        suspects=reader.read(Suspects, run.suspects),
        suspect_sheet=reader.picture(run.suspect_sheet),
        weight_picture=reader.picture(run.weight_picture),
        card=reader.read(ModelCard, run.model_card),
        comparison=reader.read(Comparison, run.comparison),
        part_times=reader.read(PartTimes, run.part_times),
        notes=tuple(reader.notes),
    )
    return _without_older_choice(contents) if trained_another(run) else contents


def _without_older_choice(contents: Contents) -> Contents:
    """What is known of the network that is chosen now, without what was trained before it was."""
    flag = contents.run.flag
    note = (
        "the network that was trained and exported is an older choice than the one shown here: "
        f"`pipeline retrain{flag}` and `pipeline export{flag}` bring both up to date"
    )
    return replace(
        contents, training=Scan(), metrics=None, mistakes=None, suspects=None, card=None, notes=(*contents.notes, note)
    )


def _relative(run: RunDir, path: Path | None) -> PurePosixPath | None:
    if path is None or not path.is_relative_to(run.project):
        return None
    return PurePosixPath(path.relative_to(run.project).as_posix())


def _table_path(run: RunDir, config: Config | None, certificate: Certificate | None) -> Path | None:
    """The table that was named, or the one of the machine that certified."""
    if config is None:
        return None
    if config.target.table:
        return run.project / config.target.table
    if certificate is not None:
        return run.tables / table_name(certificate.device, config.target.space)
    return _only(run.tables, config)


def _only(folder: Path, config: Config) -> Path | None:
    """Before anything is certified: the table of the space, if there is one and no other."""
    found = list(folder.glob(f"*__{config.target.space}.json"))
    return found[0] if len(found) == 1 else None
