"""The configuration: one frozen model per section of pipeline.toml, unknown keys refused.

The docstring under a field is its only description: it becomes `--help` and the comment in the generated file.
`essential` names what users touch, which `pipeline init` writes; all else has a default and appears with `--full`.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline.autodo_config import AutodoConfig
from pipeline.search_config import SearchConfig
from pipeline.section import (
    WITHOUT_EFFECT,
    Amount,
    BatchSize,
    Cells,
    Channels,
    Count,
    CountOrZero,
    Milliseconds,
    NonNegative,
    Pixels,
    Positive,
    Rate,
    RateOrZero,
    Section,
    Seed,
    Share,
    Threads,
    ThreadsOrZero,
    TrainingBatch,
)
from pipeline.teach_config import TeachConfig

Percentile = Literal[50, 95, 99]
Augment = Literal["none", "shift", "crop-flip", "crop-flip-cutout", "imagenet", "randaugment"]


class DataConfig(Section):
    """What is learned: images and their labels."""

    essential = ("format", "path", "resolution", "augment")
    format: Literal["digits", "npz", "folder", "idx", "cifar10", "cifar100"] = "digits"
    """digits (built in), npz (x_train, y_train, x_test, y_test), folder (a sub-folder per class, below
    train and test if there are such), idx (MNIST files), cifar10 or cifar100 (python batches)."""
    path: str = ""
    """The .npz file, or the folder; relative to pipeline.toml. Not needed for digits."""
    resolution: Pixels = 16
    """Images are cropped to their centre square and resized to this many pixels."""
    colour: bool = False
    """Three channels instead of one; grey images are repeated, colour images converted."""
    classes: Annotated[CountOrZero, WITHOUT_EFFECT] = 0
    """Number of classes, with which `pipeline profile` needs no images; 0 counts those of the data."""
    validation_share: Share = 0.5
    """Share of the training images that the architecture is judged on during the search; not used if the data
    has train, val and test folders."""
    test_share: Share = 0.2
    """Share of all images kept for the final test, for data that comes without a test set."""
    augment: Augment = "shift"
    """Augmentation: none, shift (small translations), crop-flip (CIFAR's), crop-flip-cutout, imagenet (random resized
    crop, flip, colour), randaugment (random resized crop, flip, RandAugment, random erasing)."""
    class_names: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Names of the classes in order of their labels; empty takes those of the data (folder names, or numbers)."""

    @property
    def in_channels(self) -> int:
        return 3 if self.colour else 1


class ComputeConfig(Section):
    """Where we search and train; the target machine is [target]."""

    essential = ("device",)
    device: str = "auto"
    """auto (CUDA if there), cpu, cuda or cuda:N."""
    threads: ThreadsOrZero = 0
    """CPU threads for searching and training; 0: OMP_NUM_THREADS, or all cores, of which steps of a search on small
    images take one, as more only wait for each other. Same bits need the same number."""
    seed: Seed = 0
    """Seed of everything random."""
    workers: Annotated[ThreadsOrZero, WITHOUT_EFFECT] = 0
    """Processes that load data; 0 loads in the main process, which is faster for small images."""
    channels_last: bool = True
    """Memory format of the networks; faster on CPU. Part of what makes a run repeatable to the bit."""


class TargetConfig(Section):
    """The machine, the network around the cells, and the limits it must keep."""

    essential = ("device", "threads", "cells", "channels", "budget_ms", "percentile")
    device: str = "cpu"
    """Where the model will run: cpu, cuda or cuda:N."""
    threads: Threads = 1
    """onnxruntime threads on the target."""
    batch: BatchSize = 1
    """Images per call on the target."""
    space: str = "darts"
    """The search space: of cells (darts, nasbench201) or of layers (mobile, nasbench-macro)."""
    cells: Cells = 5
    """Cells of the network that is deployed; in a space of layers, all its layers (mobile 22, nasbench-macro 8)."""
    channels: Channels = 16
    """Channels of its first cell; every reduction doubles them. Multiples of 16 run best on many CPUs. mobile: 32 for
    the widths of MobileNetV2, 40 for those of EfficientNet-Lite, other multiples of 8 scale them."""
    stem: Literal["auto", "cifar", "imagenet"] = "auto"
    """imagenet divides the resolution by 8 before the first cell (mobile: by 32 in all, otherwise by 8); auto does so
    from 96 px on."""
    budget_ms: Milliseconds = 2.0
    """The latency ceiling."""
    percentile: Percentile = 50
    """Which percentile of the latency must stay under the ceiling: with 50 half of the calls may take longer, with 95
    or 99 few do."""
    max_noise_floor: Share = 0.05
    """Largest noise of the machine at which a measurement counts; above it, it is repeated, then refused. What
    is certified at more than 5 % is marked provisional."""
    max_macs: Amount = 600_000_000
    """Largest number of multiply-adds (the mobile limit is 600 M); 0 for none."""
    max_params: Amount = 0
    """Largest number of parameters; 0 for none."""
    table: Annotated[str, WITHOUT_EFFECT] = ""
    """A latency table to use instead of the one in latency_tables/ that fits this machine."""
    allow_mismatch: bool = False
    """Use that table although it was measured on another machine; recorded in every result."""


class ProfileConfig(Section):
    """How operations are timed on the target."""

    rounds: Count = 30
    """Interleaved timing rounds over all sites; more rounds, less noise."""
    copies: Annotated[int, Field(ge=2, le=100)] = 5
    """A site's time is the difference between this many copies of it and one."""
    calibration_networks: Annotated[int, Field(ge=3, le=100_000)] = 30
    """Whole networks that the sum of site times is calibrated on."""
    validate_networks: CountOrZero = 20
    """Other networks that the calibrated prediction is tested on."""
    precision: Annotated[list[Literal["fp32", "int8"]], Field(min_length=1)] = ["fp32"]
    """Columns of the table: fp32, int8 or both; int8 times the same operations quantized."""
    backend: Literal["onnxruntime", "torch"] = "onnxruntime"
    """What runs the models: onnxruntime, which deploys them, or torch itself (CUDA events)."""


class DiscretizeConfig(Section):
    """How the cell is cut out of the search result."""

    essential = ("evidence_minutes",)
    rule: Literal["best", "argmax"] = "best"
    """best: of all that fit, the network judged best as a whole; argmax: the classic strongest inputs, refused when
    over budget."""
    max_rounds: Count = 5
    """How often the limit is corrected and solved again after a measurement."""
    budgets_ms: list[Milliseconds] = []
    """Several budgets, each with a network and a certificate of its own; empty for the one in [target]."""
    cells_grid: list[Cells] = []
    """Numbers of cells to choose from, so that a generous budget buys a deeper network; empty for [target] cells."""
    channels_grid: list[Channels] = []
    """Widths to choose from, likewise; empty for [target] channels. `pipeline profile` times every size named here."""
    score_share: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)] = 0.9
    """A larger network is taken while its cell keeps this share of what the search found (random 0, best 1)."""
    evidence_minutes: Annotated[float, Field(ge=0.0, le=10_000.0, allow_inf_nan=False)] = 5.0
    """Minutes of short trainings of candidates (on one process), which check what the search has found, and by which
    other sources of judgement earn weights; eight at least, however long they take; 0 for none."""
    evidence_steps: Count = 200
    """Steps of one short training."""
    rank_minutes: Annotated[float, Field(ge=0.0, le=10_000.0, allow_inf_nan=False), WITHOUT_EFFECT] = 15.0
    """Minutes of computing of the search without a budget by which `pipeline rank` judges, too, where the run has not
    searched; none is made where they allow a short one only, or are 0."""
    evaluations: CountOrZero = 256
    """Networks whose score as a whole is evaluated on the way to the best one that may fit; 0 takes the best sum of
    choices."""


class RetrainConfig(Section):
    """Training of the stacked network."""

    essential = ("epochs",)
    epochs: Count = 60
    """Passes over all training images (architecture validation included)."""
    holdout_share: Share = 0.0
    """Share of the training images kept aside to pick the best epoch by; 0 trains on all and keeps the last."""
    batch_size: TrainingBatch = 96
    """Images per step, over all processes."""
    accumulate: Count = 1
    """Parts that a step's images are computed in, one after the other; more parts need less memory."""
    optimizer: str = "sgd"
    """Any optimizer that timm knows (sgd means Nesterov momentum 0.9)."""
    lr: Rate = 0.025
    """Peak learning rate."""
    lr_min: RateOrZero = 0.0
    """Last learning rate."""
    warmup_epochs: CountOrZero = 0
    """Epochs of linear warm-up."""
    schedule: Literal["cosine", "linear"] = "cosine"
    """How the rate falls."""
    slow_epochs: CountOrZero = 0
    """Last epochs of the linear schedule in which the rate falls more slowly."""
    weight_decay: RateOrZero = 3e-4
    """Weight decay."""
    drop_path: Share = 0.2
    """Probability of dropping a path, reached linearly at the end."""
    auxiliary: RateOrZero = 0.4
    """Weight of the auxiliary head's loss; 0 builds none."""
    label_smoothing: Share = 0.0
    """Label smoothing."""
    mixup: RateOrZero = 0.0
    """Mixup's alpha; 0 mixes no images."""
    cutmix: RateOrZero = 0.0
    """CutMix's alpha; with both, each batch takes one of the two."""
    clip: Positive = 5.0
    """Gradient norm at which gradients are clipped."""
    ema: Share = 0.999
    """Decay of the averaged weights that are deployed; 0 deploys the last ones."""
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Arithmetic of the training steps; auto is mixed precision on CUDA, bfloat16 on a CPU where it measures faster."""
    compile: bool = False
    """Compile the network with torch.compile; needs drop_path = 0, whose rate changes every epoch."""
    checkpoint_s: Annotated[Positive, WITHOUT_EFFECT] = 60.0
    """Seconds between checkpoints within an epoch; there is one at the end of every epoch too."""
    augment: Augment | Literal[""] = ""
    """Augmentation of this training where it is not that of the search ([data] augment); empty takes the same."""
    genotype: Annotated[str, WITHOUT_EFFECT] = ""
    """A genotype file to train instead of the run's own, for transfer to other data; relative to pipeline.toml."""
    start: Annotated[str, Field(pattern="^(random|supernet|run:.+)$")] = "random"
    """Weights to start from: random, supernet (those of the search, where shapes agree), or run:NAME (those of another
    run with the same genotype, trained on other data)."""
    teacher: str = ""
    """A larger network to learn from (knowledge distillation): timm:NAME, timm:NAME@FILE.safetensors (its weights in a
    local file), FILE.onnx (such as exports/NAME/model.onnx), or weights.safetensors of another run; relative to
    pipeline.toml. Empty for none. `pipeline teach` gives one of timm the classes of the data first."""
    teacher_weight: Annotated[float, Field(gt=0.0, le=1.0, allow_inf_nan=False)] = 0.9
    """Share of the loss that is the distance to the teacher's answers; the rest is that to the labels."""
    temperature: Rate = 4.0
    """What both networks' logits are divided by before they are compared; higher makes more of the classes that the
    teacher holds for less likely."""
    teacher_mean: Annotated[tuple[NonNegative, ...], Field(strict=False)] = ()
    """Mean per channel by which the teacher's pixels (0 to 1) are normalized; empty takes what it states itself, and
    leaves them as they are for an ONNX file."""
    teacher_std: Annotated[tuple[Positive, ...], Field(strict=False)] = ()
    """Standard deviation per channel, likewise."""

    def effective(self) -> dict[str, Any]:
        """Without a teacher, nothing else about one has an effect."""
        settings = super().effective()
        about = ("teacher_weight", "temperature", "teacher_mean", "teacher_std")
        return settings if self.teacher else {key: value for key, value in settings.items() if key not in about}


class ExportConfig(Section):
    """The deployed file."""

    format: Literal["onnx"] = "onnx"
    """onnx is the only format there is."""
    tolerance: Positive = 1e-4
    """Largest absolute difference between torch's and onnxruntime's logits."""
    uint8_input: bool = False
    """Pixels go in as bytes from 0 to 255 instead of floats from 0 to 1."""
    max_file_mb: NonNegative = 0.0
    """Largest size of model.onnx; 0 for none."""
    int8: bool = False
    """Quantize as well; shipped only if it is faster on the target and loses at most [export] max_accuracy_loss."""
    max_accuracy_loss: Share = 0.01
    """Accuracy that int8 may cost, as a share of the test images."""


class Config(Section):
    """All of pipeline.toml."""

    data: DataConfig = DataConfig()
    compute: ComputeConfig = ComputeConfig()
    target: TargetConfig = TargetConfig()
    profile: ProfileConfig = ProfileConfig()
    search: SearchConfig = SearchConfig()
    discretize: DiscretizeConfig = DiscretizeConfig()
    retrain: RetrainConfig = RetrainConfig()
    teach: TeachConfig = TeachConfig()
    autodo: AutodoConfig = AutodoConfig()
    export: ExportConfig = ExportConfig()
