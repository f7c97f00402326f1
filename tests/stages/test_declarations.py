"""What stages declare: settings that exist, artifacts that something makes, and what has no effect on a result."""

from pipeline.artifacts.files import GivenGenotype, GuideImages, Images, StartWeights, TeacherBase, TeacherFile
from pipeline.config import Config
from pipeline.section import WITHOUT_EFFECT
from pipeline.stages import STAGES, TEACH, TRANSFER


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
