"""A training small enough for tests: a narrow network on 8-pixel digits."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.autodo_config import AutodoConfig, Learn
from pipeline.config import DataConfig, RetrainConfig
from pipeline.data import ImageData, load_data
from pipeline.data.normalization import Normalization
from pipeline.space.genotype import genotype_from_record
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from pipeline.training.job import Job
from pipeline.training.step import seed_all
from pipeline.training.teacher import Teacher, TeacherInput
from tests.conftest import DARTS_V2_RECORD

CPU = torch.device("cpu")
SKELETON = Skeleton("darts", 3, 4, 8, 10, 1)
SOFT: dict[str, Any] = {"teacher": "any", "teacher_weight": 0.7, "temperature": 3.0}


def digits() -> ImageData:
    return load_data(DataConfig(resolution=8), Path(), 0)


def make_network(auxiliary: bool = True) -> Network:
    seed_all(3)
    return Network(SKELETON, genotype_from_record(DARTS_V2_RECORD), auxiliary=auxiliary)


def make_mlp() -> nn.Module:
    """A network without BatchNorm, whose statistics depend on how a batch is cut."""
    seed_all(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def recipe(**settings: Any) -> RetrainConfig:
    return RetrainConfig(
        **{"epochs": 2, "batch_size": 64, "precision": "float32", "drop_path": 0.2, "ema": 0.9, **settings}
    )


def make_job(folder: Path, images: int = 256, **settings: Any) -> Job:
    """A job on some of the digits; its figures come from its settings, its traces go to the folder."""
    data = digits()
    own = ("augment", "clock", "config_hash")
    extra: dict[str, Any] = {name: settings.pop(name) for name in own if name in settings}
    values: dict[str, Any] = {
        "config": recipe(**settings),
        "train": replace(data.train, indices=data.train.indices[:images]),
        "holdout": None,
        "classes": 10,
        "normalize": Normalization(data.mean, data.std, CPU, channels_last=False),
        "augment": "shift",
        "device": CPU,
        "seed": 5,
        "workers": 0,
        "checkpoints": folder / "checkpoint",
        "history": folder / "history.jsonl",
        "tensorboard": None,
        "config_hash": "tests",
        **extra,
    }
    return Job(**values)


def autodo_job(
    folder: Path, images: int = 256, flipped: int = 0, learn: Learn = "weights+labels", **settings: Any
) -> Job:
    """A job whose first `flipped` images have another label; the guide is the digits' validation half."""
    job = make_job(folder, images, **settings)
    data = digits()
    targets = job.train.targets.clone()
    wrong = job.train.indices[:flipped]
    targets[wrong] = (targets[wrong] + 1 + wrong % 9) % 10
    return replace(
        job,
        train=replace(job.train, targets=targets),
        guide=replace(data.validation, indices=data.validation.indices[:200]),
        autodo=AutodoConfig(learn=learn, guide_share=0.5, start_epoch=1, batch_size=64),
    )


def make_teacher(run: Callable[[Tensor], Tensor] | None = None) -> Teacher:
    torch.manual_seed(9)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()
    return Teacher("any", "0" * 64, TeacherInput([0.3], [0.2], CPU, False, 8), run or network)


def taught_job(folder: Path, **settings: Any) -> Job:
    return replace(make_job(folder, **{**SOFT, **settings}), teacher=make_teacher())
