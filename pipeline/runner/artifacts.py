"""Artifacts of a run: where they lie, what they hold, and whether they are what their makers left."""

from collections.abc import Callable
from pathlib import Path

from pipeline.artifacts.artifact import Artifact
from pipeline.artifacts.files import GivenGenotype, GuideImages, Images, StartWeights, TeacherBase, TeacherFile
from pipeline.artifacts.latency_table import LatencyTable
from pipeline.artifacts.stage_record import StageRecord
from pipeline.errors import UserError
from pipeline.latency.table import readable_table
from pipeline.rundir import refuse_misspelt
from pipeline.stages import STAGES, Stage, stages_of
from pipeline.stages.context import Context
from pipeline.stages.named_files import start_file, teacher_base, teacher_file
from pipeline.stages.tables import table_hash, table_path
from pipeline.whole_files import sha256_of

# files that a setting names, if it names any
_NAMED: dict[type[Artifact], Callable[[Context], Path | None]] = {
    TeacherFile: teacher_file,
    TeacherBase: teacher_base,
    StartWeights: start_file,
}


def path_of(context: Context, kind: type[Artifact]) -> Path:
    """Where an artifact lies, or will lie."""
    if kind is LatencyTable:
        return table_path(context)
    if kind is GivenGenotype:
        return context.run.project / context.config.retrain.genotype
    if kind is GuideImages:
        return context.run.project / context.config.autodo.guide
    if kind in _NAMED:
        return _NAMED[kind](context) or context.run.project
    path: Path = getattr(context.run, kind.name)
    return path


def hash_of(context: Context, kind: type[Artifact]) -> str | None:
    """The sha256 of an artifact's content, None when there is none."""
    if kind is Images:
        return context.data.data_hash
    if kind is GuideImages:
        return None if context.guide is None else context.guide.fingerprint().sha256
    if kind is LatencyTable:
        return table_hash(context)
    path = path_of(context, kind)
    return sha256_of(path) if path.is_file() else None


def describe_lack(context: Context, kind: type[Artifact]) -> str:
    """Why an artifact has no hash; a table of other networks is there, and says nothing about this run's."""
    path = path_of(context, kind)
    if kind is not LatencyTable or not path.is_file():
        return "is missing"
    return "cannot be read" if readable_table(path) is None else "lacks networks that the settings ask for"


def read_record(context: Context, stage: Stage) -> StageRecord:
    """What the stage recorded when it was done; a damaged record is made anew with --force."""
    return StageRecord.read(context.run.record(stage.name), f"{context.run.call(stage.command)} --force")


def check_inputs(context: Context, stage: Stage) -> dict[str, str]:
    """The hashes of what the stage reads; what is missing, or not as its maker left it, is refused."""
    hashes = {}
    for kind in stage.reads:
        if kind.optional and hash_of(context, kind) is None:
            continue
        maker = next((one for one in (*stages_of(context.config), *STAGES) if kind in one.writes), None)
        hashes[kind.name] = _check_given(context, kind) if maker is None else _check_made(context, kind, maker)
    return hashes


def _check_given(context: Context, kind: type[Artifact]) -> str:
    found = hash_of(context, kind)
    if found is None:
        raise UserError(f"there is no {path_of(context, kind)}; set [retrain] genotype to a genotype file")
    return found


def _check_made(context: Context, kind: type[Artifact], maker: Stage) -> str:
    found, command = hash_of(context, kind), context.run.call(maker.command)
    if found is None:
        if kind is not LatencyTable:  # which all runs share
            refuse_misspelt(context.run)
        elif path_of(context, kind).is_file():
            LatencyTable.read(path_of(context, kind), command)  # says what is wrong with it, if it is damaged
        raise UserError(f"{_shown(context, kind)} is missing or incomplete: run `pipeline {command}` first")
    if kind is LatencyTable:  # has a seal of its own, and may be another run's
        return found
    recorded = context.run.record(maker.name).is_file()
    if not recorded or read_record(context, maker).outputs.get(kind.name, found) != found:
        raise UserError(f"{_shown(context, kind)} is not what `pipeline {command}` left there: run it again")
    return found


def require_places(context: Context, stage: Stage) -> None:
    """Refuse, before hours of work, a folder that stands where the stage's record or the run's own files will be."""
    run = context.run
    for path in (run.record(stage.name), run.config, run.environment, run.splits):
        if path.is_dir():
            raise UserError(f"{path} is a folder, where a file is to be written: move it away")


def hash_outputs(context: Context, stage: Stage) -> dict[str, str | None]:
    """The hashes of what the stage left."""
    hashes = {kind: hash_of(context, kind) for kind in stage.writes}
    for kind, found in hashes.items():
        if found is None and not kind.optional:
            command = f"`pipeline {context.run.call(stage.command)}`"
            raise UserError(f"{_shown(context, kind)} is missing or incomplete: run {command} again")
    return {kind.name: found for kind, found in hashes.items()}


def _shown(context: Context, kind: type[Artifact]) -> str:
    path = path_of(context, kind)
    return str(path.relative_to(context.run.project)) if path.is_relative_to(context.run.project) else str(path)
