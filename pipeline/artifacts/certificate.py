"""certificate.json: the latency of the chosen network before it is trained; and what is left of a refusal."""

from typing import Annotated, Any, Literal, Self

from pydantic import PlainSerializer, PlainValidator, model_validator

from pipeline.artifacts.document import Document, Part, Percentiles
from pipeline.artifacts.fields import Count, NonNegative, Number, Percentile, Sha256, SkeletonField
from pipeline.artifacts.known_latency import KnownLatency
from pipeline.artifacts.network import ChosenNetwork, genotype_hash
from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint


class Iteration(Part):
    """One network that was sought under a predicted limit, and measured if the target could be asked."""

    limit_ms: Number
    predicted_ms: Number
    measured_ms: Percentiles | None
    noise_floor: NonNegative | None
    cells: Count
    channels: Count
    genotype_sha256: Sha256
    fits: bool


class _Attempt(Document):
    """What was asked, and of which machine. Without a table (None) nothing was predicted."""

    budget_ms: NonNegative
    percentile: Percentile
    device: Fingerprint
    sentinel_ms: NonNegative | None
    table_validated: bool | None
    table_differences: list[str]


class Refusal(_Attempt):
    """What is left of a budget that no network was measured to keep."""

    name, maker = "refusal", "discretize"

    fits: Literal[False] = False
    iterations: list[Iteration]


class Certificate(_Attempt, KnownLatency):
    """A network that keeps its budget, as measured on the target or, where it could not be asked, by its prediction.

    A network that came from elsewhere was not predicted.
    """

    name, maker = "certificate", "discretize"

    fits: Literal[True]
    predicted_ms: Number | None
    predicted_interval_ms: tuple[Number, Number] | None
    provisional: bool
    genotype_sha256: Sha256
    skeleton: SkeletonField
    iterations: list[Iteration]

    @model_validator(mode="after")
    def _keeps_its_budget(self) -> Self:
        if self.certified_ms > self.budget_ms:
            raise ValueError(f"{self.certified_ms:g} ms are over the budget of {self.budget_ms:g} ms")
        return self

    @property
    def certified_ms(self) -> float:
        """The latency at the percentile that was asked."""
        return self.latency_ms.at(self.percentile)

    def describe(self) -> str:
        """Which network this is."""
        return (
            f"the network chosen for {self.budget_ms:g} ms: {self.skeleton.cells} cells × {self.skeleton.channels} "
            f"channels, p{self.percentile} {self.certified_ms:.3g} ms ({self.basis})"
        )

    def require_of(self, network: ChosenNetwork) -> Self:
        """This certificate, refused if it is that of another network."""
        if (self.genotype_sha256, self.skeleton) != (genotype_hash(network.genotype), network.skeleton):
            raise UserError(
                "the certificate is that of another network than the genotype; run `pipeline discretize` again"
            )
        return self


def _certificate_of(value: Any) -> Certificate:
    return value if isinstance(value, Certificate) else Certificate.from_record(value)


CertificateField = Annotated[Certificate, PlainValidator(_certificate_of), PlainSerializer(Certificate.record)]
