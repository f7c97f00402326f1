"""genotype.json: the network that was chosen."""

import hashlib
import json
from typing import Any, Self

from pipeline.artifacts.document import Document
from pipeline.artifacts.fields import GenotypeField, SkeletonField
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton


class ChosenNetwork(Document):
    """The genotype as the literature writes it, without a version, and the skeleton around it."""

    name, maker = "genotype", "discretize"

    genotype: GenotypeField
    skeleton: SkeletonField

    def record(self) -> dict[str, Any]:
        record = self.model_dump()
        return {**record["genotype"], "skeleton": record["skeleton"]}

    @classmethod
    def _validate(cls, record: dict[str, Any]) -> Self:
        cells = {key: value for key, value in record.items() if key != "skeleton"}
        return cls.model_validate({"genotype": cells, "skeleton": record.get("skeleton")})

    def is_of(self, skeleton: Skeleton, genotype: Genotype) -> bool:
        """Whether this is that network."""
        return self.skeleton == skeleton and self.genotype.canonical() == genotype.canonical()


def genotype_hash(genotype: Genotype) -> str:
    """sha256 of the genotype with its inputs in order: the same for the same network."""
    text = json.dumps(genotype.canonical().record(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
