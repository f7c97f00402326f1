"""What stages declare: settings that exist, artifacts that something makes, and what a change makes again."""

from pipeline.artifacts.files import GivenGenotype, GuideImages, Images, StartWeights, TeacherBase, TeacherFile
from pipeline.config import Config
from pipeline.presets import preset
from pipeline.section import WITHOUT_EFFECT
from pipeline.stages import STAGES, TEACH, TRANSFER, stage_named


def test_every_stage_depends_on_settings_that_exist_and_artifacts_that_are_made() -> None:
    given = {Images, GivenGenotype, GuideImages, TeacherFile, TeacherBase, StartWeights}
    for stages in (STAGES, (TRANSFER, *STAGES[-2:]), (TEACH,)):
        made = set(given)
        for stage in stages:
            assert set(stage.reads) <= made, stage.name
            made |= set(stage.writes)
            for name in stage.settings:
                section, _, setting = name.partition(".")
                assert not setting or setting in type(getattr(Config(), section)).model_fields, name
    assert all(kind.maker == stage.name for stage in (*STAGES, TEACH) for kind in stage.writes)


def test_the_mark_is_on_what_has_no_effect() -> None:
    """A mark forgotten costs hours; a wrong one keeps a stale result: whoever changes this list should know why."""
    marked = {
        f"{section}.{name}"
        for section, values in Config()
        for name, field in type(values).model_fields.items()
        if WITHOUT_EFFECT in field.metadata
    }
    assert marked == {
        "compute.workers",
        "data.classes",  # must be what the data has, or the data are refused
        "discretize.rank_minutes",  # of rank, which is no stage
        "search.checkpoint_s",
        "retrain.checkpoint_s",
        "target.table",  # what lies there is hashed
        "retrain.genotype",  # likewise
        "autodo.guide",  # likewise
        "autodo.max_memory_gb",  # refuses, or changes nothing
    }


def test_an_added_photo_redoes_what_sees_it_and_not_the_profile() -> None:
    profile = stage_named("profile")
    assert not profile.reads and not {name for name in profile.settings if name in ("data", "data.path")}


def test_the_augmentation_of_training_alone_redoes_the_training_alone() -> None:
    config = preset("digits")
    changed = config.model_copy(update={"retrain": config.retrain.model_copy(update={"augment": "crop-flip"})})
    differs = {
        name
        for name in ("profile", "search", "discretize", "retrain", "export")
        if stage_named(name).settings_in(config) != stage_named(name).settings_in(changed)
    }
    assert differs == {"retrain"}
