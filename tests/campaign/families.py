"""All generators of cases, and how often each has its turn."""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from tests.campaign import (
    artifacts,
    faults,
    flags,
    genotypes,
    images,
    kits,
    models,
    plausible,
    predictions,
    settings,
    worlds,
)
from tests.campaign.case import Case, Draw


class Family(NamedTuple):
    """A generator, and its share of the turns."""

    draw: Draw
    turns: int


FAMILIES: dict[str, Family] = {
    "settings": Family(settings.draw, 20),
    "plausible": Family(plausible.draw, 10),
    "flags": Family(flags.draw, 10),
    "artifacts": Family(artifacts.draw, 20),
    "images": Family(images.draw, 15),
    "models": Family(models.draw, 8),
    "genotypes": Family(genotypes.draw, 8),
    "kits": Family(kits.draw, 5),
    "faults": Family(faults.draw, 10),
    "worlds": Family(worlds.draw, 12),
    "predictions": Family(predictions.draw, 4),
}


def draw_cases(count: int, seed: int, only: str | None = None) -> Iterator[Case]:
    """So many cases; the same seed draws the same ones."""
    random = Random(seed)
    names = [only] if only else list(FAMILIES)
    for _ in range(count):
        (name,) = random.choices(names, [FAMILIES[name].turns for name in names])
        yield FAMILIES[name].draw(random)
