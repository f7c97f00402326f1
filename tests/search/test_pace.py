"""How many epochs fit: by computing alone, weight steps and rounds in the shares that a search has of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.search.pace import affordable_epochs
from pipeline.search_config import SearchConfig


class Paced:
    """A search whose weight steps take 0.1 s of computing, and every fourth, with an architecture step, 0.5 s."""

    inner_steps, train = 4, SimpleNamespace(per_epoch=10)

    def __init__(self, made: list[SearchConfig], config: SearchConfig) -> None:
        self.now, self.steps = 0.0, 0
        made.append(config)

    def advance(self) -> None:
        self.steps += 1
        self.now += 0.5 if self.steps % self.inner_steps == 0 else 0.1


@pytest.mark.parametrize(("warmup", "step_s"), [(0.0, 0.2), (0.3, 0.3 * 0.1 + 0.7 * 0.2), (0.5, 0.15)])
def test_minutes_are_filled_with_steps_of_either_kind(warmup: float, step_s: float) -> None:
    made: list[SearchConfig] = []
    paced: list[Paced] = []

    def make(config: SearchConfig) -> Any:
        paced.append(Paced(made, config))
        return paced[-1]

    config = SearchConfig(warmup_share=warmup, epochs=7)
    found = affordable_epochs(make, config, minutes=2.06, computing=lambda: paced[-1].now if paced else 0.0)
    assert found == int(123.6 / (10 * step_s))
    assert made[0].warmup_share == 0.0, "else no architecture step would be timed"
    assert affordable_epochs(make, config, 1e-6, lambda: paced[-1].now) == 3, "fewer are no search"
