"""pipeline.toml: round trip, comments from docstrings, every mistake named at once."""

import os
import tomllib
from pathlib import Path
from typing import Literal, get_origin

import pytest
from pydantic.fields import FieldInfo

from pipeline.config import Config
from pipeline.config_file import read_config, render_config
from pipeline.errors import UserError
from pipeline.presets import PRESET_NAMES, preset, render_preset, write_preset
from pipeline.section import describe_range
from pipeline.space.costs import mac_costs
from pipeline.space.extremes import cheapest_genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.space.supernet import Supernet

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", PRESET_NAMES)
def test_presets_survive_the_round_trip(name: str, full: bool, tmp_path: Path) -> None:
    write_preset(name, tmp_path / "pipeline.toml", force=False, full=full)
    assert read_config(tmp_path / "pipeline.toml") == preset(name)


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_the_short_file_holds_what_users_touch_and_what_the_preset_sets(name: str) -> None:
    short, everything = (tomllib.loads(render_preset(name, full)) for full in (False, True))
    assert {section: set(values) for section, values in everything.items()} == {
        section: set(values) for section, values in Config().model_dump().items()
    }
    for section_name, section in preset(name):
        deviating = {key for key, value in section if value != getattr(getattr(Config(), section_name), key)}
        assert set(short.get(section_name, {})) == deviating | set(section.essential)


def test_what_users_touch_are_a_dozen_settings_or_so() -> None:
    known = {(name, setting) for name, section in Config() for setting in type(section).model_fields}
    essential = {(name, setting) for name, section in Config() for setting in section.essential}
    assert essential <= known
    assert 10 <= len(essential) <= 16


def test_every_setting_has_a_comment() -> None:
    lines = render_config(Config()).splitlines()
    for index, line in enumerate(lines):
        if " = " in line and not line.startswith("#"):
            assert lines[index - 1].startswith("# "), line


def test_the_root_file_is_the_digits_preset() -> None:
    assert (ROOT / "pipeline.toml").read_text() == render_preset("digits", full=False)


def test_imagenet_mobile_is_the_mobile_setting() -> None:
    target = preset("imagenet-mobile").target
    assert (target.cells, target.channels, target.max_macs) == (14, 48, 600_000_000)
    assert preset("imagenet-mobile").data.resolution == 224


@pytest.mark.parametrize(("name", "resolution"), [("mobile", 128), ("mobile-cifar", 32)])
def test_the_mobile_presets_deploy_within_the_mobile_limit(name: str, resolution: int) -> None:
    config = preset(name)
    assert config.target.space == "mobile" and config.target.max_macs == 600_000_000
    deployed = Skeleton("mobile", config.target.cells, config.target.channels, resolution, 10)
    costs, space = mac_costs(deployed), space_named("mobile")
    assert costs.of(cheapest_genotype(space, costs)) < config.target.max_macs
    searched = Skeleton("mobile", config.search.cells, config.search.channels, config.search.resolution, 10)
    assert Supernet(searched).space is space


def test_only_the_demo_preset_is_lenient() -> None:
    for name in PRESET_NAMES:
        config = preset(name)
        lenient = config.search.allow_unvalidated or config.target.max_noise_floor > 0.05
        assert lenient == (name == "digits"), name


def test_all_mistakes_at_once_with_the_nearest_name(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text('[search]\nepoch = 3\nbatch_size = "many"\n[target]\nbudget_ms = -1\n[serch]\nx = 1\n')
    with pytest.raises(UserError) as caught:
        read_config(path)
    message = str(caught.value)
    assert "4 mistakes" in message
    for part in ("did you mean epochs?", "[search] batch_size", "[target] budget_ms = -1", "did you mean search?"):
        assert part in message


def test_a_key_that_looks_like_another_error_stays_in_its_line_and_a_long_value_is_cut(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(f'[data]\n"a\\nerror: b" = 1\nresolution = "{"x" * 5000}"\n')
    with pytest.raises(UserError) as caught:
        read_config(tmp_path / "pipeline.toml")
    assert "[data] a\\nerror: b is not a setting" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3 and len(str(caught.value)) < 1000


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-3.0", '"20"', "true"])
def test_bad_budgets(value: str, tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(f"[target]\nbudget_ms = {value}\n")
    with pytest.raises(UserError, match="budget_ms"):
        read_config(tmp_path / "pipeline.toml")


@pytest.mark.parametrize(
    ("section", "setting", "value", "span"),
    [
        ("data", "resolution", "100000", "4 to 4,096"),
        ("data", "validation_share", "1.0", "0 to less than 1"),
        ("target", "threads", "4097", "1 to 512"),
        ("target", "budget_ms", "nan", "more than 0 and at most 1,000,000"),
        ("compute", "seed", "-1", "0 to less than 4,294,967,296"),
        ("retrain", "lr", "1e300", "more than 0 and at most 100"),
        ("retrain", "batch_size", "1", "2 to 65,536"),
        ("discretize", "cells_grid", "[3, 0]", "1 to 500"),
    ],
)
def test_what_cannot_work_is_refused_with_its_range(
    section: str, setting: str, value: str, span: str, tmp_path: Path
) -> None:
    (tmp_path / "pipeline.toml").write_text(f"[{section}]\n{setting} = {value}\n")
    with pytest.raises(UserError, match=rf"\[{section}\] {setting} = .*: must be {span}"):
        read_config(tmp_path / "pipeline.toml")
    assert f"Range: {span}." in " ".join(render_config(Config()).replace("\n#", "").split())


def test_every_number_has_a_range() -> None:
    numbers = [field for _, section in Config() for field in type(section).model_fields.values() if _is_number(field)]
    assert len(numbers) > 50 and all(map(describe_range, numbers))


def _is_number(field: FieldInfo) -> bool:
    return type(field.default) in (int, float) and get_origin(field.annotation) is not Literal


@pytest.mark.parametrize(
    "content",
    [b"\x00\xff\xfe binary", b"[search\n", b"a = " + b"[" * 5000, b"#" * 50_000_000, b"search = 3"],
    ids=["binary", "not TOML", "deep", "50 MB", "section is a number"],
)
def test_unreadable_files(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_bytes(content)
    with pytest.raises(UserError, match=r"pipeline\.toml"):
        read_config(tmp_path / "pipeline.toml")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipeline.toml")
    with pytest.raises(UserError, match="not a file"):
        read_config(tmp_path / "pipeline.toml")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="pipeline init"):
        read_config(tmp_path / "pipeline.toml")
    with pytest.raises(UserError, match="cannot read"):
        read_config(tmp_path)


def test_overrides_win_and_none_does_not() -> None:
    config = read_config(ROOT / "pipeline.toml", {"target": {"budget_ms": 7.0, "device": None}})
    assert config.target.budget_ms == 7.0
    assert config.target.device == preset("digits").target.device


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text("mine")
    with pytest.raises(UserError, match="--force"):
        write_preset("digits", path, force=False)
    assert path.read_text() == "mine"
    write_preset("digits", path, force=True)
    assert tomllib.loads(path.read_text())["data"]["format"] == "digits"
