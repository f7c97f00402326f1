"""Layouts: reductions, resolutions, the sites of a whole network."""

import pytest

from pipeline.errors import UserError
from pipeline.space.cells import Cell
from pipeline.space.genotype import Genotype
from pipeline.space.plan import all_sites, network_sites, plan_of
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import SPACE_NAMES, space_named


def darts(resolution: int = 32, **changes: object) -> Skeleton:
    settings = {"cells": 8, "channels": 16, "classes": 10, **changes}
    return Skeleton("darts", resolution=resolution, **settings)  # type: ignore[arg-type]


def test_reductions_at_one_and_two_thirds() -> None:
    kinds = [part.kind for part in plan_of(darts(cells=20)).chain if isinstance(part, Cell)]
    assert [i for i, kind in enumerate(kinds) if kind == "reduce"] == [6, 13]


def test_the_cell_after_a_reduction_halves_its_older_input() -> None:
    cells = [part for part in plan_of(darts(cells=3)).chain if isinstance(part, Cell)]
    assert cells[2].preprocess == (Site("preprocess", 64, 64, 2, 32), Site("preprocess", 128, 64, 1, 16))


@pytest.mark.parametrize(
    ("resolution", "nearest"), [(30, 32), (29, 28), (33, 32), (31, 32), (2, 4), (226, 224), (100, 96), (9000, 4096)]
)
def test_resolutions_that_cannot_be_halved(resolution: int, nearest: int) -> None:
    with pytest.raises(UserError, match=f"{resolution} px .* {nearest} px"):
        plan_of(darts(resolution))


@pytest.mark.parametrize("resolution", [8, 28, 36, 224, 96])
def test_resolutions_that_can(resolution: int) -> None:
    sites = all_sites(darts(resolution))
    assert all(site.resolution % site.stride == 0 for site in sites)


@pytest.mark.parametrize("name", SPACE_NAMES)
def test_the_network_of_the_literature_is_of_its_space(name: str) -> None:
    literature = space_named(name).literature
    assert literature.space == name
    assert {cell.kind for cell in plan_of(literature).cells} == {kind.name for kind in space_named(name).kinds}


@pytest.mark.parametrize("name", ["cells", "channels", "classes", "in_channels"])
def test_sizes_below_one(name: str) -> None:
    with pytest.raises(UserError, match=name):
        plan_of(darts(**{name: 0}))


def test_sites_of_a_network_are_among_all_sites(darts_v2: Genotype) -> None:
    skeleton = darts()
    sites = network_sites(skeleton, darts_v2)
    assert set(sites) <= set(all_sites(skeleton))
    # stem, head; two preprocessings, a concatenation and eight operations for each of eight cells
    assert len(sites) == 2 + 8 * (2 + 1 + 8)
    assert len({site.key for site in all_sites(skeleton)}) == len(all_sites(skeleton))
