"""How long an epoch of a network takes, by a few steps; and how many epochs a number of minutes allows."""

import time
from collections.abc import Sequence
from itertools import islice

from pipeline.data import batches, count_batches
from pipeline.training.job import Job
from pipeline.training.loop import choose_for
from pipeline.training.step import Model, Stepper

_STEPS = 4


def time_epoch(model: Model, job: Job) -> float:
    """Seconds of one epoch: the fastest of a few steps, the first excepted, times the steps of an epoch."""
    size = min(job.config.batch_size, len(job.train))
    steps = count_batches(job.train, size, drop_last=True)
    precision = choose_for(model, job, size)
    stepper = Stepper(model, job.config, job.normalize, precision, job.classes, steps, job.seed)
    served = batches(job.train, size, seed=job.seed, epoch=0, augment=job.augment, device=job.device, drop_last=True)
    taken_s, start = [], time.perf_counter()
    for number, batch in enumerate(islice(served, _STEPS)):
        stepper.step(batch, number)
        taken_s.append(time.perf_counter() - start)
        start = time.perf_counter()
    return steps * min(taken_s[1:] or taken_s)


def affordable_epochs(minutes: float, seconds_per_epoch: Sequence[float], seeds: int, most: int) -> int:
    """As many epochs of all networks with all seeds as fit into the minutes; one at least, `most` at most."""
    return max(1, min(most, int(60 * minutes / (seeds * sum(seconds_per_epoch)))))
