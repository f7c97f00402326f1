"""The stages in order, with what each reads and writes: the one place that states the data flow."""

from dataclasses import dataclass
from typing import Any

from pipeline.artifacts.alphas import Alphas, SupernetWeights
from pipeline.artifacts.artifact import Artifact
from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.files import (
    DeployedModel,
    GivenGenotype,
    GuideImages,
    Images,
    Int8Model,
    PredictScript,
    StartWeights,
    SuspectSheet,
    TeacherBase,
    TeacherFile,
    WeightPicture,
)
from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.artifacts.labels import Labels
from pipeline.artifacts.latency_table import LatencyTable
from pipeline.artifacts.learned_images import LearnedImages
from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.mistakes import Mistakes
from pipeline.artifacts.model_card import ModelCard
from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.selection import Selection
from pipeline.artifacts.suspects import Suspects
from pipeline.artifacts.taught import TaughtTeacher
from pipeline.artifacts.trained import Trained
from pipeline.config import Config
from pipeline.teach_config import LIKE_RETRAIN


@dataclass(frozen=True)
class Stage:
    """A step of the pipeline; its code is `run(context)` in the module of the same name.

    `settings` are the sections or single settings (`section.setting`) of pipeline.toml it depends on; `part_of` is the
    command that runs it, where it has none of its own.
    """

    name: str
    settings: tuple[str, ...]
    reads: tuple[type[Artifact], ...]
    writes: tuple[type[Artifact], ...]
    part_of: str = ""
    shared: bool = False
    """Whether processes that a launcher (torchrun) started share out its work."""

    @property
    def command(self) -> str:
        return self.part_of or self.name

    def depends_on(self, section: str, setting: str) -> bool:
        return section in self.settings or f"{section}.{setting}" in self.settings

    def settings_in(self, config: Config) -> dict[str, Any]:
        """The values of the settings that its results depend on, by dotted name."""
        values: dict[str, Any] = {}
        for name in self.settings:
            section, _, setting = name.partition(".")
            for key, value in getattr(config, section).effective().items():
                if not setting or key == setting:
                    values[f"{section}.{key}"] = value
        return values


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
_EVIDENCE = (
    "compute",
    "data.augment",
    "search.batch_size",
    "search.weight_lr",
    "search.cells",
    "search.channels",
    "search.resolution",
)
_LIMITS = (
    "target.budget_ms",
    "target.percentile",
    "target.max_macs",
    "target.max_params",
    "target.allow_mismatch",
)
# the images without the names of their classes, which no search sees
_SEEN = ("format", "path", "resolution", "colour", "validation_share", "test_share", "augment")

STAGES: tuple[Stage, ...] = (
    # of the images it needs the sizes alone, which its table states
    Stage("profile", ("profile", "data.resolution", "data.colour", *_MACHINE, *_SPACE), (), (LatencyTable,)),
    Stage(
        "search",
        (*(f"data.{name}" for name in _SEEN), "compute", "search", *_SPACE, *_LIMITS),
        (Images, LatencyTable),
        (Alphas, SupernetWeights, JudgedNetworks),
        shared=True,
    ),
    Stage(
        "discretize",
        ("discretize", *_EVIDENCE, *_MACHINE, *_SPACE, *_LIMITS, "target.max_noise_floor"),
        (Images, LatencyTable, Alphas, JudgedNetworks, SupernetWeights),
        (ChosenNetwork, Selection, Certificate),
        shared=True,
    ),
    Stage(
        "retrain",
        ("data", "compute", "retrain", "autodo"),
        (Images, GuideImages, ChosenNetwork, TeacherFile, StartWeights),
        (Trained, Metrics, Mistakes, LearnedImages, Suspects, SuspectSheet, WeightPicture),
        shared=True,
    ),
    Stage(
        "export",
        ("export", *_MACHINE, *_LIMITS, "target.max_noise_floor"),
        (Images, ChosenNetwork, Certificate, Trained, Metrics),
        (DeployedModel, Int8Model, ModelCard, Labels, PredictScript),
    ),
)

# takes the place of profile, search and discretize where [retrain] genotype names a network from elsewhere
TRANSFER = Stage(
    "transfer",
    ("retrain.genotype", "data.resolution", "data.colour", *_MACHINE, *_SPACE, *_LIMITS, "target.max_noise_floor"),
    (Images, GivenGenotype),
    (ChosenNetwork, Certificate),
    part_of="retrain",
)

# only where it is asked for: it gives the teacher of [retrain] the classes of the data
TEACH = Stage(
    "teach",
    ("data", "compute", "teach", "retrain.teacher", *(f"retrain.{name}" for name in LIKE_RETRAIN)),
    (Images, TeacherBase),
    (TaughtTeacher,),
)


def stages_of(config: Config) -> tuple[Stage, ...]:
    """The stages of a run in order."""
    return (TRANSFER, *STAGES[-2:]) if config.retrain.genotype else STAGES


def stage_named(name: str) -> Stage:
    return next(stage for stage in (*STAGES, TEACH) if stage.name == name)
