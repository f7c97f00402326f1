"""Small steps take one thread, unless the user asked for a number; whatever was set before is set again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pipeline.config_file import make_config
from pipeline.rundir import RunDir
from pipeline.space.skeleton import Skeleton
from pipeline.stages.context import Context
from pipeline.stages.threads import worthwhile_threads

SMALL, LARGE = (Skeleton("darts", cells=5, channels=8, resolution=pixels, classes=10) for pixels in (20, 32))
PHOTOS = Skeleton("darts", cells=5, channels=8, resolution=64, classes=10, stem="imagenet")


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("asked", "environment", "skeleton", "used"),
    [(0, "", SMALL, 1), (0, "", PHOTOS, 1), (0, "", LARGE, 2), (2, "", SMALL, 2), (0, "2", SMALL, 2)],
)
def test_small_steps_take_one_thread_unless_a_number_is_asked_for(
    asked: int, environment: str, skeleton: Skeleton, used: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    if environment:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    context = Context(make_config({"compute": {"threads": asked, "device": "cpu"}}, "the test"), RunDir(tmp_path, "a"))
    with worthwhile_threads(context, skeleton):
        assert torch.get_num_threads() == used
    assert torch.get_num_threads() == 2


def test_threads_are_set_again_after_an_error(tmp_path: Path) -> None:
    context = Context(make_config({"compute": {"device": "cpu"}}, "the test"), RunDir(tmp_path, "a"))
    before = context.device and torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt), worthwhile_threads(context, SMALL):
        raise KeyboardInterrupt
    assert torch.get_num_threads() == before
