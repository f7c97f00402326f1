"""Artifacts that are JSON: typed fields, finite numbers, nothing unknown, and a seal where an edit must be noticed."""

import hashlib
import json
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict

from pipeline.artifacts.artifact import Typed
from pipeline.artifacts.fields import NonNegative


class Part(BaseModel):
    """A part of a document."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Percentiles(Part):
    """Wall-clock percentiles of one call, in ms."""

    p50: NonNegative
    p95: NonNegative
    p99: NonNegative
    raw_p50: NonNegative | None = None

    def at(self, percentile: int) -> float:
        """The latency at 50, 95 or 99."""
        return {50: self.p50, 95: self.p95, 99: self.p99}[percentile]


class Document(Part, Typed):
    """A JSON file. Fields that nobody set are not written; a file without a version is of the first."""

    version_key: ClassVar[str] = "schema"
    max_bytes: ClassVar[int] = 50_000_000

    def record(self) -> dict[str, Any]:
        """The document as its file holds it."""
        return {self.version_key: self.version, **self.model_dump(exclude_unset=True)}

    @classmethod
    def from_record(cls, record: Any) -> Self:
        """The inverse of `record`."""
        if not isinstance(record, dict):
            raise ValueError("it is not a JSON object")
        cls._check_version(record.get(cls.version_key, 1))
        return cls._validate({key: value for key, value in record.items() if key != cls.version_key})

    @classmethod
    def _validate(cls, record: dict[str, Any]) -> Self:
        return cls.model_validate(record)

    def _content(self) -> bytes:
        return (json.dumps(self.record(), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()

    @classmethod
    def _parse(cls, content: bytes) -> Self:
        return cls.from_record(json.loads(content))


class Sealed(Document):
    """A document whose last entry is the sha256 of all others."""

    def record(self) -> dict[str, Any]:
        record = super().record()
        return {**record, "sha256": digest(record)}

    @classmethod
    def _validate(cls, record: dict[str, Any]) -> Self:
        content = {key: value for key, value in record.items() if key != "sha256"}
        document = super()._validate(content)
        if record.get("sha256") != digest({cls.version_key: cls.version, **content}):
            raise ValueError("it was altered after it was written (its sha256 does not match)")
        return document


def digest(record: dict[str, Any]) -> str:
    """The seal of a record."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
