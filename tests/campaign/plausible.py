"""Settings that a person may well write, and that cannot work here, or only just: the stage is run."""

from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.campaign.case import Case, Must
from tests.campaign.project import change_setting


class Wish(NamedTuple):
    """Settings of one stage, and what must come of them."""

    command: str
    settings: dict[str, str]
    must: Must = "end well"


_WISHES = (
    Wish("retrain", {"retrain.batch_size": "2"}),
    Wish("retrain", {"retrain.batch_size": "16", "retrain.accumulate": "16"}, "be refused"),
    Wish("retrain", {"retrain.batch_size": "200", "retrain.accumulate": "150"}, "be refused"),
    Wish("retrain", {"retrain.batch_size": "65536"}, "be done"),
    Wish("retrain", {"retrain.accumulate": "1000000"}, "be refused"),
    Wish("retrain", {"retrain.optimizer": '"fusedadam"'}, "be refused"),
    Wish("retrain", {"retrain.optimizer": '"bnbsgd8bit"'}, "be refused"),
    Wish("retrain", {"retrain.optimizer": '"adahessian"'}),
    Wish("retrain", {"retrain.optimizer": '"nothing"'}, "be refused"),
    Wish("retrain", {"retrain.optimizer": '""'}, "be refused"),
    Wish("retrain", {"retrain.optimizer": '"adamw"'}, "be done"),
    Wish("retrain", {"retrain.lr": "100.0"}),
    Wish("retrain", {"retrain.lr": "100.0", "retrain.clip": "1e9", "retrain.ema": "0.0"}),
    Wish("retrain", {"retrain.lr_min": "50.0"}),
    Wish("retrain", {"retrain.warmup_epochs": "5", "retrain.epochs": "2"}, "be refused"),
    Wish("retrain", {"retrain.warmup_epochs": "1000000"}, "be refused"),
    Wish("retrain", {"retrain.schedule": '"linear"', "retrain.slow_epochs": "3", "retrain.epochs": "3"}, "be refused"),
    Wish("retrain", {"retrain.holdout_share": "0.999"}),
    Wish("retrain", {"retrain.holdout_share": "1e-12"}),
    Wish("retrain", {"retrain.mixup": "1e-30"}),
    Wish("retrain", {"retrain.mixup": "100.0", "retrain.cutmix": "100.0", "retrain.batch_size": "255"}),
    Wish("retrain", {"retrain.label_smoothing": "0.99"}, "be done"),
    Wish("retrain", {"retrain.drop_path": "0.99"}, "be done"),
    Wish("retrain", {"retrain.auxiliary": "0.4"}),
    Wish("retrain", {"retrain.auxiliary": "100.0"}),
    Wish("retrain", {"retrain.precision": '"float16"'}),
    Wish("retrain", {"retrain.precision": '"bfloat16"'}),
    Wish("retrain", {"retrain.compile": "true"}, "be refused"),
    Wish("retrain", {"retrain.augment": '"imagenet"'}, "be done"),
    Wish("retrain", {"retrain.augment": '"randaugment"'}, "be done"),
    Wish("retrain", {"retrain.augment": '"crop-flip-cutout"'}, "be done"),
    Wish("retrain", {"retrain.genotype": '"no such file.json"'}, "be refused"),
    Wish("retrain", {"retrain.genotype": '"."'}, "be refused"),
    Wish("retrain", {"data.class_names": '["a"]'}, "be refused"),
    Wish("retrain", {"data.classes": "3"}, "be refused"),
    Wish("retrain", {"data.colour": "true"}, "be refused"),
    Wish("retrain", {"data.resolution": "16"}, "be refused"),
    Wish("retrain", {"data.test_share": "0.999"}),
    Wish("retrain", {"data.test_share": "0.0"}, "be refused"),
    Wish("retrain", {"autodo.learn": '"weights"'}, "be refused"),
    Wish("retrain", {"autodo.learn": '"weights"', "autodo.guide_share": "0.1"}, "be refused"),
    Wish("retrain", {"autodo.learn": '"weights"', "autodo.guide_share": "0.2", "autodo.lr": "100.0"}, "be refused"),
    Wish("retrain", {"autodo.learn": '"weights"', "autodo.guide": '"nowhere"', "retrain.epochs": "2"}, "be refused"),
    Wish(
        "retrain",
        {
            "autodo.learn": '"weights+labels"',
            "autodo.guide_share": "0.2",
            "autodo.start_epoch": "1",
            "retrain.epochs": "2",
            "autodo.max_memory_gb": "1e-6",
        },
        "be refused",
    ),
    Wish(
        "retrain",
        {"autodo.learn": '"weights"', "autodo.guide_share": "0.2", "autodo.start_epoch": "1", "retrain.epochs": "2"},
        "be done",
    ),
    Wish("retrain", {"compute.device": '"cuda"'}, "be refused"),
    Wish("retrain", {"compute.device": '"tpu"'}, "be refused"),
    Wish("retrain", {"compute.device": '"mps"'}, "be refused"),
    Wish("retrain", {"compute.device": '"cpu:99"'}),
    Wish("retrain", {"compute.device": '"cuda:99999999999"'}, "be refused"),
    Wish("retrain", {"compute.device": '""'}, "be refused"),
    Wish("retrain", {"compute.seed": "4294967295"}, "be done"),
    Wish("retrain", {"compute.threads": "512"}, "be refused"),
    Wish("retrain", {"compute.workers": "1"}),
    Wish("search", {"search.batch_size": "65536"}, "be refused"),
    Wish("search", {"search.warmup_share": "0.99", "search.epochs": "1"}, "be done"),
    Wish("search", {"search.warmup_share": "0.9", "search.epochs": "10", "search.inner_steps": "30"}, "be refused"),
    Wish("search", {"search.inner_steps": "1000"}, "be refused"),
    Wish("search", {"search.inner_steps": "2", "search.epochs": "1"}, "be done"),
    Wish("search", {"search.weight_lr": "100.0"}),
    Wish("search", {"search.weight_lr_min": "99.0"}),
    Wish("search", {"search.alpha_lr": "100.0"}),
    Wish("search", {"search.gamma": "100.0", "search.method": '"idarts"'}),
    Wish("search", {"search.gamma": "1e-300", "search.method": '"cg"'}),
    Wish("search", {"search.neumann_terms": "30", "search.method": '"idarts"'}),
    Wish("search", {"search.method": '"darts"'}, "be done"),
    Wish("search", {"search.method": '"reverse"', "search.inner_steps": "2"}),
    Wish("search", {"search.method": '"bvfim"', "search.barrier_tau": "1e9"}),
    Wish("search", {"search.method": '"bvfim"', "search.barrier_gap": "1e-300"}),
    Wish("search", {"search.resolution": "16"}, "be refused"),
    Wish("search", {"search.resolution": "4"}),
    Wish("search", {"search.resolution": "1"}, "be refused"),
    Wish("search", {"search.cells": "1"}),
    Wish("search", {"search.cells": "2"}),
    Wish("search", {"search.channels": "1"}),
    Wish("search", {"search.channels": "4096"}, "be refused"),
    Wish("search", {"search.cells": "500", "search.channels": "4096"}, "be refused"),
    Wish("search", {"search.penalty": "100.0", "target.budget_ms": "0.000001"}, "be refused"),
    Wish("search", {"search.allow_unvalidated": "false"}, "be refused"),
    Wish("search", {"search.validation_batches": "20"}),
    Wish("search", {"search.paths": '"mixture"', "compute.seed": "4294967295"}, "be done"),
    Wish("search", {"search.scale": '"literal"'}, "be done"),
    Wish("search", {"search.clip": "1e-300"}),
    Wish("search", {"search.weight_decay": "100.0"}),
    Wish("search", {"target.table": '"no such table.json"'}, "be refused"),
    Wish("search", {"target.table": '"pipeline.toml"'}, "be refused"),
    Wish("search", {"target.max_macs": "1"}, "be refused"),
    Wish("search", {"target.max_params": "1"}, "be refused"),
    Wish("search", {"target.threads": "512"}, "be refused"),
    Wish("search", {"target.device": '"cuda"'}, "be refused"),
    Wish("search", {"target.device": '"cpu:1"'}, "be refused"),
    Wish("search", {"target.space": '"darts"'}, "be refused"),
    Wish("search", {"target.cells": "4"}, "be refused"),
    Wish("search", {"data.validation_share": "0.999"}),
    Wish("search", {"data.validation_share": "0.0"}, "be refused"),
    Wish("search", {"data.augment": '"crop-flip-cutout"'}, "be done"),
    Wish("search", {"discretize.channels_grid": "[4, 8]"}, "be refused"),
    Wish("discretize", {"discretize.budgets_ms": "[50.0, 50.0]"}),
    Wish("discretize", {"discretize.budgets_ms": "[1e-9]"}, "be refused"),
    Wish("discretize", {"discretize.rule": '"argmax"'}, "be done"),
    Wish("discretize", {"discretize.evaluations": "0"}, "be done"),
    Wish("discretize", {"discretize.evidence_minutes": "0.001", "discretize.evidence_steps": "1"}),
    Wish("discretize", {"target.max_noise_floor": "0.0"}),
    Wish("discretize", {"target.percentile": "99"}),
    Wish("discretize", {"target.max_macs": "1"}, "be refused"),
    Wish("export", {"export.tolerance": "1e-300"}),
    Wish("export", {"export.max_file_mb": "1e-9"}, "be refused"),
    Wish("export", {"export.uint8_input": "true"}, "be done"),
    Wish("export", {"target.max_params": "1"}, "be refused"),
    Wish("export", {"target.budget_ms": "0.000001"}, "be refused"),
    Wish("profile", {"target.channels": "4096", "target.cells": "500"}, "be refused"),
    Wish("profile", {"target.batch": "65536", "data.resolution": "512"}, "be refused"),
    Wish("profile", {"data.resolution": "30"}, "be refused"),
    Wish("profile", {"profile.precision": '["fp32", "fp32"]'}),
    Wish("profile", {"target.space": '"nasbench-macro"'}, "be refused"),
    Wish("profile", {"target.cells": "1"}),
    Wish("retrain", {"retrain.start": '"run:nowhere"'}, "be refused"),
    Wish("retrain", {"retrain.start": '"nonsense"'}, "be refused"),
    Wish("retrain", {"retrain.start": '"supernet"'}),
    Wish("retrain", {"retrain.teacher": '"nowhere.onnx"'}, "be refused"),
    Wish("retrain", {"retrain.teacher": '"pipeline.toml"'}, "be refused"),
    Wish("retrain", {"retrain.teacher": '"timm:nonsense"'}, "be refused"),
    Wish("retrain", {"retrain.teacher": '"timm:resnet18@nowhere.safetensors"'}, "be refused"),
    Wish("retrain", {"retrain.teacher": '"exports/default/model.onnx"', "retrain.temperature": "100.0"}),
    Wish("retrain", {"retrain.teacher": '"exports/default/model.onnx"', "retrain.teacher_std": "[1.0, 2.0]"}),
    Wish("retrain", {"retrain.teacher": '"runs/default/retrain/weights.safetensors"'}),
    Wish("retrain", {"retrain.teacher_weight": "0.0"}, "be refused"),
    Wish("teach", {"retrain.teacher": '""'}, "be refused"),
    Wish("teach", {"retrain.teacher": '"timm:nonsense"'}, "be refused"),
    Wish("teach", {"retrain.teacher": '"exports/default/model.onnx"'}, "be refused"),
    Wish("check", {"data.format": '"npz"'}, "be refused"),
    Wish("check", {"data.format": '"folder"', "data.path": '"pipeline.toml"'}, "be refused"),
    Wish("check", {"data.format": '"npz"', "data.path": '"runs"'}, "be refused"),
    Wish("check", {"data.format": '"idx"', "data.path": '"runs"'}, "be refused"),
    Wish("check", {"data.format": '"cifar10"', "data.path": '"runs"'}, "be refused"),
    Wish("check", {"data.format": '"folder"', "data.path": '"runs"'}, "be refused"),
    Wish("check", {"data.resolution": "4096"}),
)


def draw(random: Random) -> Case:
    """One of the wishes, or a random optimizer that timm lists."""
    wish = random.choice(_WISHES)
    if random.random() < 0.1:
        wish = Wish("retrain", {"retrain.optimizer": f'"{random.choice(_optimizers())}"'})
    name = ", ".join(f"{setting} = {value}" for setting, value in wish.settings.items())
    return Case("plausible", name, (wish.command,), partial(_change, settings=wish.settings), wish.must)


def _optimizers() -> list[str]:
    from timm.optim._optim_factory import list_optimizers

    return list(map(str, list_optimizers()))


def _change(project: Path, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        section, setting = name.split(".")
        change_setting(project, section, setting, value)
