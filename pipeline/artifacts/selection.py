"""selection.json: what was chosen among what, and why."""

from pipeline.artifacts.document import Document, Part, Percentiles
from pipeline.artifacts.fields import Count, GenotypeField, NonNegative, Number, Sha256, SkeletonField

# Verdicts on a network that was measured.
CHOSEN, OVER = "chosen", "over budget"
TIGHT, OUTDONE = "fits with too little to spare", "fits; a better one fits too"


class Figures(Part):
    """A network and what is known of it without measuring."""

    cells: Count
    channels: Count
    score: Number
    score_share: Number
    predicted_ms: Number
    macs: Count
    params: Count
    genotype: GenotypeField
    judged: Number | None = None


class ArgmaxFigures(Figures):
    """The classic cell."""

    within_limits: bool


class CandidateFigures(Figures):
    """A network that was tried, and what became of it; not measured where the target could not be asked."""

    measured_ms: Percentiles | None
    verdict: str


class SourceFigures(Part):
    """How a source of judgement did on short trainings: Kendall's τ, its 95 % interval, and the weight it earned."""

    source: str
    tau: Number
    low: Number
    high: Number
    weight: Number | None


class Selection(Document):
    """How the network was chosen; `argmax` is the classic cell in its skeleton, `sizes` the best of each size."""

    name, maker, version = "selection", "discretize", 2  # 1 had rescoring and fates

    rule: str
    evidence: list[SourceFigures]
    alphas_sha256: Sha256
    skeleton: SkeletonField
    limits: dict[str, int | float]
    limit_predicted_ms: Number
    chosen: Figures
    gap: Number
    solve_seconds: NonNegative
    argmax: ArgmaxFigures
    candidates: list[CandidateFigures]
    sizes: list[Figures]
