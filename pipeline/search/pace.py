"""How many epochs of a search fit into minutes of computing."""

import math
import time
from collections.abc import Callable
from statistics import mean, median

from pipeline.search.engine import Search
from pipeline.search_config import SearchConfig

_TIMED_EPOCHS, _TIMED_ROUNDS = 20, 3
_FEWEST = 3


def affordable_epochs(
    make: Callable[[SearchConfig], Search],
    config: SearchConfig,
    minutes: float,
    computing: Callable[[], float] = time.process_time,
) -> int:
    """By a few rounds of a search that is thrown away; their computing, which other processes change little.

    Before its warm-up ends a search makes weight steps alone, and most of a round's steps are such.
    """
    search, times = make(config.model_copy(update={"epochs": _TIMED_EPOCHS, "warmup_share": 0.0})), list[float]()
    for _ in range(_TIMED_ROUNDS * search.inner_steps):
        started = computing()
        search.advance()
        times.append(computing() - started)
    step_s = config.warmup_share * median(times) + (1 - config.warmup_share) * mean(times)
    return max(_FEWEST, math.floor(60 * minutes / (search.train.per_epoch * max(step_s, 1e-9))))
