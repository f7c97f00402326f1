"""Knowledge distillation: a student that learns from the labels and from a teacher's answers to the same images.

    L = (1 − w)·L_labels + w·T²·KL(p ‖ q),   p = softmax(z_teacher / T),  q = softmax(z_student / T)

averaged over images (Hinton et al., 2015). T² keeps the size of the second gradient whatever the temperature T.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.config import Augment, RetrainConfig
from pipeline.data import Batch, ImageSet, batches
from pipeline.resumable.ranks import gather, world
from pipeline.training.job import Job
from pipeline.training.teacher import Teacher

_CACHE_BATCH = 256
_MOST_CACHE_BYTES = 1_000_000_000
_FLOAT_BYTES = 4


def distance(logits: Tensor, answers: Tensor, temperature: float) -> Tensor:
    """T²·KL(p ‖ q), the mean over images."""
    q, p = (functional.log_softmax(one.float() / temperature, dim=1) for one in (logits, answers))
    return temperature**2 * functional.kl_div(q, p, reduction="batchmean", log_target=True)


def may_cache(config: RetrainConfig, augment: Augment, images: int, classes: int) -> bool:
    """Whether an image is the same every time it is seen, and the answers to all of them fit into memory."""
    fixed = augment == "none" and not config.mixup and not config.cutmix
    return fixed and images * classes * _FLOAT_BYTES <= _MOST_CACHE_BYTES


class Distillation:
    """A teacher, and how much of the loss is the distance to its answers."""

    def __init__(self, teacher: Teacher, config: RetrainConfig, cache: "CachedAnswers | None" = None) -> None:
        self.weight, self.temperature = config.teacher_weight, config.temperature
        self._teacher, self._cache = teacher, cache

    def answers(self, images: Tensor, indices: Tensor) -> Tensor:
        """The teacher's logits for images as the student sees them, or for those with these numbers in the pool."""
        return self._teacher(images) if self._cache is None else self._cache.of(indices)

    def loss(self, label_loss: Tensor, logits: Tensor, answers: Tensor) -> Tensor:
        """(1 − w)·L_labels + w·T²·KL(p ‖ q)."""
        return (1 - self.weight) * label_loss + self.weight * distance(logits, answers, self.temperature)


def make_distillation(job: Job) -> Distillation | None:
    """What a job's network learns from its teacher, if it has one."""
    if job.teacher is None:
        return None
    cached = may_cache(job.config, job.augment, len(job.train), job.classes)
    cache = CachedAnswers(job.teacher, job.train, job.device, job.workers) if cached else None
    return Distillation(job.teacher, job.config, cache)


class CachedAnswers:
    """A teacher's answers to all training images as they are, computed when they are first asked for.

    Every image is answered in a batch that is the same whoever asks: the bits depend neither on when a training was
    interrupted nor on the number of ranks, which share the work.
    """

    def __init__(
        self, teacher: Callable[[Tensor], Tensor], images: ImageSet, device: torch.device, workers: int
    ) -> None:
        self._teacher, self._images, self._device, self._workers = teacher, images, device, workers
        self._answers: Tensor | None = None

    def of(self, indices: Tensor) -> Tensor:
        """Answers to images by their number in the pool."""
        if self._answers is None:
            self._answers = self._compute()
        places = torch.searchsorted(self._images.indices.to(self._device), indices)
        return self._answers[places]

    def _compute(self) -> Tensor:
        rank, size = world()
        own = [
            self._teacher(batch.images).cpu() for number, batch in enumerate(self._in_order()) if number % size == rank
        ]
        by_rank = [iter(part) for part in gather(own)]
        count = -(-len(self._images) // _CACHE_BATCH)
        return torch.cat([next(by_rank[number % size]) for number in range(count)]).to(self._device)

    def _in_order(self) -> Iterator[Batch]:
        return batches(
            self._images, _CACHE_BATCH, seed=0, epoch=0, shuffle=False, workers=self._workers, device=self._device
        )
