"""What discretize chose, as later stages read it."""

from dataclasses import fields
from typing import Any, NamedTuple

from pipeline.errors import PromiseBroken, UserError
from pipeline.rundir import RunDir, read_json
from pipeline.selection.records import genotype_hash
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.plan import plan_of
from pipeline.space.skeleton import Skeleton


class Chosen(NamedTuple):
    """The network to be trained, and the certificate of its latency."""

    skeleton: Skeleton
    genotype: Genotype
    certificate: dict[str, Any]

    @property
    def budget_ms(self) -> float:
        return float(self.certificate["budget_ms"])

    @property
    def percentile(self) -> int:
        return int(self.certificate["percentile"])


def read_chosen(run: RunDir) -> Chosen:
    """The chosen network of the run; a file that is missing, damaged or of another network is refused."""
    for path in (run.genotype, run.certificate):
        if not path.is_file():
            raise UserError(f"there is no {path}; run `pipeline discretize` first")
    record, certificate = read_json(run.genotype), read_json(run.certificate)
    genotype = genotype_from_record(record, str(run.genotype))
    skeleton = _skeleton(record.get("skeleton"), str(run.genotype))
    usable = isinstance(certificate, dict) and isinstance(certificate.get("budget_ms"), float | int)
    if not usable or certificate.get("percentile") not in (50, 95, 99):
        raise UserError(f"{run.certificate} is damaged; run `pipeline discretize` again")
    if certificate.get("fits") is not True:
        raise PromiseBroken(f"{run.certificate} does not say that the network fits; run `pipeline discretize` again")
    if certificate.get("genotype_sha256") != genotype_hash(genotype):
        raise UserError(
            f"{run.certificate} is the certificate of another network than {run.genotype}; "
            "run `pipeline discretize` again"
        )
    return Chosen(skeleton, genotype, certificate)


def _skeleton(record: Any, origin: str) -> Skeleton:
    kinds = {field.name: str if field.name in ("space", "stem") else int for field in fields(Skeleton)}
    if (
        not isinstance(record, dict)
        or set(record) != set(kinds)
        or any(type(record[name]) is not kind for name, kind in kinds.items())
        or record["stem"] not in ("auto", "cifar", "imagenet")
    ):
        raise UserError(f"{origin} has no skeleton that fits it; run `pipeline discretize` again")
    skeleton = Skeleton(**record)
    plan_of(skeleton)
    return skeleton
