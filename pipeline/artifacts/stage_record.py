"""record.json: what a finished stage depended on, what it read and what it left."""

from typing import Any

from pydantic import Field

from pipeline.artifacts.document import Document
from pipeline.artifacts.fields import NonNegative, Sha256
from pipeline.artifacts.network import ChosenNetwork
from pipeline.errors import UserError
from pipeline.rundir import RunDir
from pipeline.whole_files import sha256_of


class StageRecord(Document):
    """Settings by dotted name; sha256 of inputs and outputs, and the outputs' schema versions, by artifact."""

    name = "record"

    stage: str
    finished: str
    seconds: NonNegative = 0.0
    settings: dict[str, Any]
    inputs: dict[str, Sha256]
    outputs: dict[str, Sha256 | None]
    versions: dict[str, int] = Field(default_factory=dict)
    state: Sha256 | None = None
    """Of the state that the stage had saved on its way, which goes as soon as this is written."""


def trained_another(run: RunDir) -> bool:
    """Whether what was trained, and so exported, is another network than the one that is chosen now."""
    path = run.record("retrain")
    if not path.is_file() or not run.genotype.is_file():
        return False
    try:
        trained = StageRecord.read(path).inputs.get(ChosenNetwork.name)  # none: a genotype that was handed in
    except UserError:
        return False
    return trained is not None and trained != sha256_of(run.genotype)
