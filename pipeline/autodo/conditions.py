"""What AutoDO asks of a training before it starts, each refused with what to change."""

from pipeline.autodo.augmentation import NUMBERS
from pipeline.autodo_config import AutodoConfig
from pipeline.config import RetrainConfig
from pipeline.errors import UserError

_GB = 1e9
_FLOAT_BYTES = 4
_VISIT_BYTES = 8
_EARLY_BYTES = 12  # a sum of losses and an answer


def check_settings(config: AutodoConfig, retrain: RetrainConfig) -> None:
    """One guide, epochs to learn in, and no mixing of images."""
    if bool(config.guide) == bool(config.guide_share):
        found = "both" if config.guide else "neither"
        raise UserError(
            f"[autodo] learn = {config.learn!r} needs images with labels you trust, and {found} of [autodo] guide and "
            "guide_share is set; name a folder of such images as guide, or set guide_share if you vouch for all labels"
        )
    if config.start_epoch >= retrain.epochs:
        raise UserError(
            f"[autodo] start_epoch = {config.start_epoch} leaves nothing of {retrain.epochs} epochs to learn in; "
            "lower it or raise [retrain] epochs"
        )
    for name in ("mixup", "cutmix", "label_smoothing"):
        value = getattr(retrain, name)
        if value:
            raise UserError(f"[retrain] {name} = {value:g} blurs what [autodo] learns of single images; set it to 0")


def count_bytes(config: AutodoConfig, images: int, classes: int, with_holdout: bool) -> int:
    """Memory of λ, of RMSprop's state, and with a holdout of the best λ so far."""
    floats = 1 + (classes if "labels" in config.parts else 0) + (NUMBERS if "augmentation" in config.parts else 0)
    return images * (floats * _FLOAT_BYTES * (3 if with_holdout else 2) + _VISIT_BYTES + _EARLY_BYTES)


def check_memory(config: AutodoConfig, images: int, classes: int, with_holdout: bool) -> int:
    """The bytes it takes; more than the limit are refused."""
    needed = count_bytes(config, images, classes, with_holdout)
    if needed > config.max_memory_gb * _GB:
        less = count_bytes(config.model_copy(update={"learn": "weights"}), images, classes, with_holdout)
        raise UserError(
            f"[autodo] learn = {config.learn!r} takes {needed / _GB:.2f} GB ({needed:,} bytes) for {images:,} images "
            f"and {classes:,} classes, more than max_memory_gb = {config.max_memory_gb:g}; raise it, or "
            f"learn = 'weights', which takes {less / _GB:.2f} GB"
        )
    return needed
