"""weights.safetensors of `pipeline teach`: a network of timm that answers for the classes of the data."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field
from torch import Tensor

from pipeline.artifacts.artifact import Typed
from pipeline.artifacts.document import Document
from pipeline.artifacts.fields import Count, Number
from pipeline.artifacts.tensors import pack, unpack

ENTRY = "taught"


class TaughtFacts(Document):
    """What the weights belong to: `source` is [retrain] teacher as it was when they were made."""

    name, maker = ENTRY, "teach"

    source: str
    architecture: str
    side: Count
    mean: tuple[Number, ...]
    std: tuple[Annotated[Number, Field(gt=0.0)], ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class TaughtTeacher(Typed):
    """The weights of a teacher, and what they belong to."""

    name, maker, version = "taught_teacher", "teach", TaughtFacts.version

    facts: TaughtFacts
    weights: Mapping[str, Tensor]

    def _content(self) -> bytes:
        return pack(self.weights, {ENTRY: json.dumps(self.facts.record())})

    @classmethod
    def _parse(cls, content: bytes) -> Self:
        tensors, facts = unpack(content)
        return cls(TaughtFacts.from_record(json.loads(facts.get(ENTRY, "null"))), tensors)
