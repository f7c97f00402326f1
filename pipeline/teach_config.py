"""[teach]: how a teacher of timm gets the classes of the data."""

from pipeline.section import Count, PixelsOrZero, Rate, Section, TrainingBatch

LIKE_RETRAIN = (
    "holdout_share",
    "accumulate",
    "optimizer",
    "lr_min",
    "weight_decay",
    "label_smoothing",
    "mixup",
    "cutmix",
    "clip",
    "ema",
    "precision",
    "augment",
)
"""Settings of [retrain] that hold for a teacher too."""


class TeachConfig(Section):
    """Fine-tuning of the network that [retrain] teacher names; what is not here is as in [retrain]."""

    epochs: Count = 10
    """Passes over the training images."""
    lr: Rate = 0.01
    """Peak learning rate."""
    batch_size: TrainingBatch = 96
    """Images per step, over all processes."""
    resolution: PixelsOrZero = 0
    """Pixels a side that the teacher sees, fewer being faster; 0 for those it was made for."""
    pretrained: bool = True
    """Start from weights of timm, or of the file that [retrain] teacher names; false trains it from nothing."""
