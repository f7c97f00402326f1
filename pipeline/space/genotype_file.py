"""Genotype files: a genotype as the literature writes it, and the skeleton around it where the file states one."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import UserError
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.plan import skeleton_from_record
from pipeline.space.skeleton import Skeleton
from pipeline.whole_files import read_given

_MAX_FILE_MB = 1


class GenotypeFile(NamedTuple):
    """What a file states."""

    genotype: Genotype
    skeleton: Skeleton | None


def parse_genotype_file(record: Any, origin: str) -> GenotypeFile:
    """Both parts, each checked; whoever needs only one of them is not handed a file whose other part cannot be."""
    genotype = genotype_from_record(record, origin)
    if record.get("skeleton") is None:
        return GenotypeFile(genotype, None)
    try:
        skeleton = skeleton_from_record(record["skeleton"])
    except (ValueError, UserError) as error:
        raise UserError(f"{origin}: its skeleton cannot be used: {error}; mend it, or leave it out") from None
    if skeleton.space != genotype.space:
        raise UserError(
            f"{origin}: its skeleton is of the space {skeleton.space!r}, its cells of {genotype.space!r}; leave it out"
        )
    return GenotypeFile(genotype, skeleton)


def read_genotype_file(path: Path) -> GenotypeFile:
    """What a JSON file states."""
    text = read_given(path, _MAX_FILE_MB)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not JSON; a genotype file looks like {{'space': 'darts', 'normal': …}}") from None
    return parse_genotype_file(record, str(path))


def read_genotype(path: Path) -> Genotype:
    """The genotype in a JSON file."""
    return read_genotype_file(path).genotype
