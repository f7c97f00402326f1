"""A recipe made runnable: the optimizer, schedule, losses, mixing and averaged weights that [retrain] describes.

All of them are timm's; this module only says which, and with what.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pipeline.config import RetrainConfig
from pipeline.errors import UserError
from pipeline.resumable.checkpoint import require_plain

_WARMUP_START = 0.01  # of the peak rate


class Targets(NamedTuple):
    """Images as they are fed, and labels: numbers of classes, or shares of them after mixing."""

    images: Tensor
    labels: Tensor


def make_optimizer(config: RetrainConfig, network: nn.Module) -> torch.optim.Optimizer:
    """The optimizer over all parameters; like DARTS, decay applies to every one of them."""
    from timm.optim._optim_factory import create_optimizer_v2, list_optimizers

    if config.optimizer not in list_optimizers():
        raise UserError(
            f"[retrain] optimizer = {config.optimizer!r} is unknown to timm; try sgd, adamw, lamb, nadamw or lion"
        )

    def make(module: nn.Module) -> torch.optim.Optimizer:
        optimizer: torch.optim.Optimizer = create_optimizer_v2(
            module, opt=config.optimizer, lr=config.lr, weight_decay=config.weight_decay, filter_bias_and_bn=False
        )
        return optimizer

    try:
        _try_step(make, next(network.parameters()).device)
    except Exception as error:  # what timm lists may need another package, a GPU, or second derivatives
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"[retrain] optimizer = {config.optimizer!r} cannot run here ({reason}); try sgd, adamw, lamb or lion"
        ) from error
    return make(network)


def _try_step(make: Callable[[nn.Module], torch.optim.Optimizer], device: torch.device) -> None:
    """One step on a small module of the kinds of weights that networks have; random generators stay where they are."""
    with torch.random.fork_rng(devices=[]):
        module = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Linear(2, 2)).to(device)
        optimizer = make(module)
        for weight in module.parameters():
            weight.grad = torch.ones_like(weight)
        optimizer.step()
        require_plain(optimizer.state_dict(), "its state")


def make_schedule(
    config: RetrainConfig, optimizer: torch.optim.Optimizer, steps_per_epoch: int
) -> Callable[[int], None]:
    """A function that sets the rate before a step, given how many were done.

    cosine falls along half a wave. linear falls along a line that reaches zero `slow_epochs` before the end, and from
    1/(epochs - slow_epochs) of the peak along a flatter one to the end, as P-DARTS and PC-DARTS do on ImageNet
    (the peak over one epoch of the line is too large a last step).
    """
    from timm.scheduler.scheduler_factory import create_scheduler_v2

    slow = config.slow_epochs if config.schedule == "linear" else 0
    if 0 < config.warmup_epochs + slow >= config.epochs:
        raise UserError(
            f"[retrain] epochs = {config.epochs} leaves nothing between {config.warmup_epochs} warm-up epochs "
            f"and {slow} slow ones; raise it or lower warmup_epochs and slow_epochs"
        )
    fast = config.epochs - slow
    schedule, _ = create_scheduler_v2(
        optimizer,
        sched="cosine" if config.schedule == "cosine" else "poly",
        num_epochs=fast,
        decay_rate=1.0,
        min_lr=config.lr_min,
        warmup_lr=config.lr * _WARMUP_START,
        warmup_epochs=config.warmup_epochs,
        cycle_mul=slow / fast if slow else 1.0,
        cycle_decay=1 / fast,
        cycle_limit=2 if slow else 1,
        step_on_epochs=False,
        updates_per_epoch=steps_per_epoch,
    )
    step_update: Callable[[int], None] = schedule.step_update
    return step_update


def make_loss(config: RetrainConfig) -> nn.Module:
    """Cross entropy, smoothed; against shares when images are mixed (mixing smooths the labels itself)."""
    from timm.loss.cross_entropy import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy

    if config.mixup or config.cutmix:
        return SoftTargetCrossEntropy()  # type: ignore[no-untyped-call]
    if config.label_smoothing:
        return LabelSmoothingCrossEntropy(config.label_smoothing)  # type: ignore[no-untyped-call]
    return nn.CrossEntropyLoss()


def make_mixing(config: RetrainConfig, classes: int) -> Callable[[Tensor, Tensor], Targets]:
    """Mixup and CutMix of a batch with its reverse; the image in the middle of an odd batch is left as it is."""
    if not config.mixup and not config.cutmix:
        return Targets
    from timm.data.mixup import Mixup, mixup_target

    mixup: Any = Mixup(  # type: ignore[no-untyped-call]
        mixup_alpha=config.mixup,
        cutmix_alpha=config.cutmix,
        label_smoothing=config.label_smoothing,
        num_classes=classes,
    )

    def mix(images: Tensor, labels: Tensor) -> Targets:
        even = len(images) - len(images) % 2
        mixed, shares = mixup(images[:even].clone(), labels[:even])
        if even == len(images):
            return Targets(mixed, shares)
        rest = mixup_target(labels[even:], classes, smoothing=config.label_smoothing)  # type: ignore[no-untyped-call]
        return Targets(torch.cat([mixed, images[even:]]), torch.cat([shares, rest]))

    return mix


def make_average(config: RetrainConfig, network: nn.Module) -> Any | None:
    """Averaged weights (timm's ModelEmaV3, its decay warmed up so that short trainings forget the start too)."""
    if not config.ema:
        return None
    from timm.utils.model_ema import ModelEmaV3

    return ModelEmaV3(network, decay=config.ema, use_warmup=True)
