"""What is said beside the table of certified networks."""

import pytest

from pipeline.report.selection import kinds_without_weights
from pipeline.space.cells import Gene
from pipeline.space.genotype import Genotype

FREE = ("skip_connect", "max_pool_3x3")


def darts_of(normal: tuple[str, str], reduce: tuple[str, str]) -> Genotype:
    """Every node takes the two operations from the two inputs."""
    cells = {"normal": normal, "reduce": reduce}
    return Genotype(
        "darts", {name: (tuple(Gene(o, i) for i, o in enumerate(both)),) * 4 for name, both in cells.items()}
    )


@pytest.mark.parametrize(
    ("network", "named"),
    [
        (darts_of(FREE, FREE), ["normal", "reduce"]),
        (darts_of(FREE, ("skip_connect", "dil_conv_3x3")), ["normal"]),
        (darts_of(("sep_conv_3x3", "skip_connect"), ("skip_connect", "dil_conv_3x3")), []),
    ],
)
def test_cells_that_learn_nothing_are_named(network: Genotype, named: list[str]) -> None:
    assert list(kinds_without_weights(network)) == named
