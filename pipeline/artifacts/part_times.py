"""part_times.json: how the milliseconds of the chosen network are shared out, as the runtime's own profiler saw it."""

from pipeline.artifacts.document import Document
from pipeline.artifacts.fields import Count, NonNegative, Sha256, SkeletonField
from pipeline.fingerprint import Fingerprint


class PartTimes(Document):
    """Milliseconds by part of the network: "0", "3/edges.1", "3/preprocess.0", "head", and "" for the runtime's own.

    A profiler slows every node a little: these are good as shares of a latency, and are no latency.
    """

    name, maker = "part_times", "report"

    genotype_sha256: Sha256
    skeleton: SkeletonField
    device: Fingerprint
    calls: Count
    parts_ms: dict[str, NonNegative]
