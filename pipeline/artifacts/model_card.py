"""model.json: what an export says about itself."""

from pathlib import Path
from typing import Any, Self

from pipeline.artifacts.certificate import CertificateField
from pipeline.artifacts.document import Part, Percentiles, Sealed
from pipeline.artifacts.fields import (
    Count,
    GenotypeField,
    NonNegative,
    Percentile,
    Sha256,
    Share,
    SkeletonField,
)
from pipeline.artifacts.known_latency import KnownLatency
from pipeline.errors import UserError
from pipeline.whole_files import sha256_of


class KeptClause(Part):
    """A clause of the contract, and the figures it was judged by."""

    clause: str
    promise: str
    passed: bool
    figures: dict[str, Any]


class Int8Trial(Part):
    """Whether the int8 file is shipped and why; figures are missing where it could not be made."""

    shipped: bool
    reason: str
    accuracy: Share | None = None
    fp32_accuracy: Share | None = None
    measured_ms: Percentiles | None = None
    fp32_measured_ms: Percentiles | None = None
    noise_floor: NonNegative | None = None
    file_mb: NonNegative | None = None


class ModelCard(Sealed, KnownLatency):
    """An export: what goes in and out, what it is, what was promised and found, and the sha256 of its files."""

    name, maker = "model_card", "export"

    run: dict[str, str]
    input: dict[str, Any]
    output: dict[str, Any]
    labels: list[str]
    resolution: Count
    normalization: dict[str, Any]
    genotype: GenotypeField
    skeleton: SkeletonField
    params: Count
    macs: Count
    opset: Count
    oldest_onnxruntime: str
    versions: dict[str, str]
    budget_ms: NonNegative
    percentile: Percentile
    certificate: CertificateField
    sources_sha256: dict[str, Sha256]
    test_accuracy: Share
    p50_means: str = ""
    file_mb: NonNegative
    contract: list[KeptClause]
    int8: Int8Trial | None
    teacher: str = ""
    files: dict[str, Sha256]

    @classmethod
    def read(cls, path: Path, command: str = "") -> Self:
        """The card, after checking that the files it names lie beside it as they were written."""
        card = super().read(path, command)
        for name, digest in card.files.items():
            file = path.parent / name
            if not file.is_file() or sha256_of(file) != digest:
                raise UserError(
                    f"{file} is not the file that {path.name} describes; run `pipeline {command or cls.maker}` again"
                )
        return card
