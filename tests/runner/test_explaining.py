"""An error of a library becomes a sentence with the setting most likely at fault; the trace stays for --debug."""

import pytest

from pipeline.config import Config, RetrainConfig, TargetConfig
from pipeline.errors import PromiseBroken, UserError
from pipeline.runner.explaining import explained
from pipeline.search_config import SearchConfig
from pipeline.stages import stage_named

CHANGED = Config(
    target=TargetConfig(channels=4000, stem="cifar"),
    search=SearchConfig(weight_lr=50.0, method="cg"),
    retrain=RetrainConfig(lr=90.0, batch_size=128, optimizer="adamp"),
)


def sentence_of(error: Exception, stage: str | None = None, config: Config = CHANGED) -> str:
    with (
        pytest.raises(UserError) as caught,
        explained(config, None if stage is None else stage_named(stage)),
    ):
        raise error
    assert caught.value.__cause__ is error
    return str(caught.value)


@pytest.mark.parametrize(
    ("error", "stage", "suspect"),
    [
        (RuntimeError("value cannot be converted"), "retrain", "[retrain] lr = 90.0"),
        (OverflowError("too large"), "search", "[search] weight_lr = 50.0"),
        (MemoryError(), None, "[target] channels = 4000"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes"), "retrain", "[retrain] batch_size = 128"),
        (ValueError("adamp has no foreach"), "retrain", "[retrain] optimizer = 'adamp'"),
        (ValueError("the stem is no cifar"), None, "[target] stem = 'cifar'"),
    ],
)
def test_the_suspect_is_what_the_message_names_or_what_is_farthest_from_its_default(
    error: Exception, stage: str | None, suspect: str
) -> None:
    sentence = sentence_of(error, stage)
    assert f"{suspect} is most likely at fault (its default is " in sentence and "--debug" in sentence
    assert ("memory" in sentence) == ("memory" in str(error).lower() or isinstance(error, MemoryError))


def test_with_all_defaults_nothing_is_accused() -> None:
    sentence = sentence_of(ValueError("two\nlines"), config=Config())
    assert "at fault" not in sentence and "(two)" in sentence


def test_our_own_errors_and_mistakes_of_the_program_pass() -> None:
    for error in (PromiseBroken("ours"), KeyError("a bug"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught, explained(CHANGED):
            raise error
        assert caught.value is error
