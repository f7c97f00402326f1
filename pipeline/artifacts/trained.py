"""weights.safetensors of a training: the weights, and all that is needed to build the network they belong to."""

import json
from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field, model_validator

from pipeline.artifacts.artifact import Typed
from pipeline.artifacts.document import Document
from pipeline.artifacts.fields import GenotypeField, Number, SkeletonField
from pipeline.artifacts.tensors import pack, unpack
from pipeline.space.network import Network

ENTRY = "trained"
_AUXILIARY = "auxiliary."


class _Description(Document):
    skeleton: SkeletonField
    genotype: GenotypeField
    mean: tuple[Number, ...]
    std: tuple[Annotated[Number, Field(gt=0.0)], ...]
    labels: tuple[str, ...]

    @model_validator(mode="after")
    def _fits_the_network(self) -> Self:
        channels, classes = self.skeleton.in_channels, self.skeleton.classes
        if not len(self.mean) == len(self.std) == channels or len(self.labels) != classes:
            raise ValueError("mean and std must be one per channel, labels one per class")
        return self


@dataclass(frozen=True)
class Trained(Typed):
    """A trained network; mean and std per channel for pixels in 0…1.

    What is read comes without the auxiliary head and in evaluation mode.
    """

    name, maker, version = "weights", "retrain", _Description.version

    network: Network
    mean: tuple[float, ...]
    std: tuple[float, ...]
    labels: tuple[str, ...]

    def _content(self) -> bytes:
        network = self.network
        description = _Description(
            skeleton=network.skeleton, genotype=network.genotype, mean=self.mean, std=self.std, labels=self.labels
        )
        return pack(network.state_dict(), {ENTRY: json.dumps(description.record())})

    @classmethod
    def _parse(cls, content: bytes) -> Self:
        tensors, facts = unpack(content)
        found = _Description.from_record(json.loads(facts.get(ENTRY, "null")))
        network = Network(found.skeleton, found.genotype)
        weights = {name: value for name, value in tensors.items() if not name.startswith(_AUXILIARY)}
        try:
            network.load_state_dict(weights)
        except RuntimeError:
            weights = {}
        if weights.keys() != network.state_dict().keys():  # torch itself forgives a missing count of batches
            raise ValueError("its weights are not those of the network it names")
        return cls(network.eval(), found.mean, found.std, found.labels)
