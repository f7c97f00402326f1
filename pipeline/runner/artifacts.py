"""Artifacts: what stages hand to each other, where it lies, and which command makes it."""

from pathlib import Path

from pipeline.errors import UserError
from pipeline.rundir import sha256_of
from pipeline.stages import STAGES
from pipeline.stages.context import Context
from pipeline.stages.tables import table_hash, table_path


def path_of(context: Context, artifact: str) -> Path:
    """Where an artifact lies, or will lie."""
    if artifact == "table":
        return table_path(context)
    path: Path = getattr(context.run, artifact)
    return path


def hash_of(context: Context, artifact: str) -> str | None:
    """The sha256 of an artifact's content, None when there is none."""
    if artifact == "data":
        return context.data.data_hash
    if artifact == "table":
        return table_hash(context)
    path = path_of(context, artifact)
    return sha256_of(path) if path.is_file() else None


def require(context: Context, artifacts: tuple[str, ...]) -> dict[str, str]:
    """The hashes of all artifacts; a missing one is refused with the command that makes it."""
    hashes: dict[str, str] = {}
    for artifact in artifacts:
        found = hash_of(context, artifact)
        if found is None:
            maker = next(stage.name for stage in STAGES if artifact in stage.writes)
            where = _shown(context, path_of(context, artifact))
            raise UserError(f"{where} is missing or incomplete: run `pipeline {maker}{context.run_flag}` first")
        hashes[artifact] = found
    return hashes


def _shown(context: Context, path: Path) -> str:
    return str(path.relative_to(context.run.project)) if path.is_relative_to(context.run.project) else str(path)
