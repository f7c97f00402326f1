"""What follows from a configuration: the network that is searched in beside the one that is deployed."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.config_file import make_config
from pipeline.errors import UserError
from pipeline.rundir import RunDir
from pipeline.stages.context import Context


def context(folder: Path, pixels: int, **search: Any) -> Context:
    data = {"resolution": pixels, "classes": 10}
    return Context(make_config({"data": data, "search": search}, "the test"), RunDir(folder, "test"))


def test_a_search_resolution_changes_the_supernet_alone(tmp_path: Path) -> None:
    plain, small = context(tmp_path, 32), context(tmp_path, 32, resolution=16)
    assert plain.search_skeleton.resolution == 32 and small.search_skeleton.resolution == 16
    assert small.target_skeleton == plain.target_skeleton and small.target_skeleton.resolution == 32


def test_a_search_at_fewer_pixels_keeps_the_stem_that_is_deployed(tmp_path: Path) -> None:
    made = context(tmp_path, 128, resolution=64)
    assert made.target_skeleton.imagenet_stem and made.search_skeleton.imagenet_stem
    assert not context(tmp_path, 64, resolution=32).search_skeleton.imagenet_stem


def test_more_pixels_than_the_data_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\[search\] resolution = 64 is above \[data\] resolution = 32"):
        _ = context(tmp_path, 32, resolution=64).search_skeleton


def test_far_more_threads_than_cores_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    config = make_config({"compute": {"threads": 17}}, "the test")
    with pytest.raises(UserError, match="is 17, but this machine has 2 cores"):
        _ = Context(config, RunDir(tmp_path, "test")).device
