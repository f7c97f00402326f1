"""The stages in order, with what each reads and writes: the one place that states the data flow."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A step of the pipeline; its code is `run(context)` in the module of the same name.

    `settings` are the sections or single settings (`section.setting`) of pipeline.toml it depends on; `reads` and
    `writes` name artifacts (see `pipeline.runner.artifacts`).
    """

    name: str
    settings: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


_MACHINE = ("target.device", "target.threads", "target.batch")
_SPACE = (
    "target.space",
    "target.cells",
    "target.channels",
    "target.stem",
    "discretize.cells_grid",
    "discretize.channels_grid",
)
# what short trainings and the proxies look at
_EVIDENCE = ("compute", "data.augment", "search.batch_size", "search.weight_lr", "search.cells", "search.channels")
_LIMITS = (
    "target.budget_ms",
    "target.percentile",
    "target.max_macs",
    "target.max_params",
    "target.table",
    "target.allow_mismatch",
)

STAGES: tuple[Stage, ...] = (
    Stage("profile", ("profile", "data.resolution", "data.colour", *_MACHINE, *_SPACE), (), ("table",)),
    Stage("search", ("data", "compute", "search", *_SPACE, *_LIMITS), ("data", "table"), ("alphas",)),
    Stage(
        "discretize",
        ("discretize", *_EVIDENCE, *_MACHINE, *_SPACE, *_LIMITS, "target.max_noise_floor"),
        ("data", "table", "alphas"),
        ("genotype", "selection", "certificate"),
    ),
    Stage("retrain", ("data", "compute", "retrain"), ("data", "genotype"), ("weights", "metrics")),
    Stage(
        "export",
        ("export", *_MACHINE, *_LIMITS, "target.max_noise_floor"),
        ("data", "genotype", "certificate", "weights", "metrics"),
        ("model", "model_card"),
    ),
)


def stage_named(name: str) -> Stage:
    return next(stage for stage in STAGES if stage.name == name)
