"""comparison.json: the certified network beside what one would have used instead, at the same latency."""

from typing import Literal

from pipeline.artifacts.document import Document, Part
from pipeline.artifacts.fields import Count, GenotypeField, NonNegative, Number, Percentile, Sha256, Share
from pipeline.fingerprint import Fingerprint


class Entrant(Part):
    """A network that was trained once per seed. `width` scales its channels; without one it has the run's own.

    `measured_ms` is the latency at the percentile asked, taken in the same rounds as that of all others; of random
    networks, one per seed, the mean.
    """

    name: str
    kind: Literal["certified", "rival", "random"]
    width: NonNegative | None
    params: Count
    macs: Count
    measured_ms: NonNegative
    training_s: NonNegative
    accuracies: list[Share]


class Unmatched(Part):
    """A rival that no width brings to the latency, and the nearest it came."""

    name: str
    width: NonNegative
    measured_ms: NonNegative


class Trial(Document):
    """result.json of one training: `identity` is the hash of all that it depends on."""

    name, maker = "result", "compare"

    identity: Sha256
    accuracy: Share
    training_s: NonNegative


class Plan(Document):
    """plan.json: what was decided by measuring before the first training, so that a stopped comparison goes on."""

    name, maker = "plan", "compare"

    identity: Sha256
    epochs: Count
    widths: dict[str, NonNegative]
    unmatched: list[Unmatched]
    random: list[GenotypeField]


class Difference(Part):
    """The certified network's accuracy minus another's, with the 95 % interval over seeds; none from one seed."""

    name: str
    mean: Number
    low: Number | None
    high: Number | None


class Comparison(Document):
    """Who was compared with whom, under which conditions, and what follows; the certified network comes first."""

    name, maker = "comparison", "compare"

    percentile: Percentile
    budget_ms: NonNegative
    noise_floor: NonNegative
    device: Fingerprint
    on_target: bool
    epochs: Count
    seeds: list[Count]
    train_images: Count
    test_images: Count
    entrants: list[Entrant]
    unmatched: list[Unmatched]
    differences: list[Difference]
    sentence: str
