"""Kinds of fields that documents have in common: finite numbers, shares, hashes, networks."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator

from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.plan import skeleton_from_record
from pipeline.space.skeleton import Skeleton

Number = Annotated[float, Field(allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Percentile = Literal[50, 95, 99]


def _skeleton_of(value: Any) -> Skeleton:
    return value if isinstance(value, Skeleton) else skeleton_from_record(value)


def _genotype_of(value: Any) -> Genotype:
    return value if isinstance(value, Genotype) else genotype_from_record(value)


SkeletonField = Annotated[Skeleton, PlainValidator(_skeleton_of), PlainSerializer(asdict)]
GenotypeField = Annotated[Genotype, PlainValidator(_genotype_of), PlainSerializer(Genotype.record)]
