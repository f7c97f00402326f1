import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.artifacts.latency_table import LatencyTable
from pipeline.errors import Interrupted, UserError
from pipeline.latency.campaign import Campaign
from pipeline.latency.measure import Effort
from pipeline.latency.predictor import Predictor
from pipeline.latency.profiling import profile_device, store_table, sweep_stored
from pipeline.latency.table import table_name
from pipeline.space.plan import count_params
from pipeline.space.sampling import random_genotype
from pipeline.space.skeleton import Skeleton
from tests.latency.fakes import CALL_MS, FINGERPRINT, PARAMETER_MS, FakeDevice, module_ms
from tests.latency.made import SKELETON, made_table

SMALL = Skeleton("nasbench201", cells=3, channels=4, resolution=8, classes=3, in_channels=1)
CAMPAIGN = Campaign((SMALL,), copies=3, calibration_networks=6, validation_networks=6)
EFFORT = Effort(rounds=3, calls=2, extra_rounds=1)


def test_a_profile_predicts_networks_it_has_not_seen(tmp_path: Path) -> None:
    """On a clock that charges per call and parameter, κ = 1, b is the charge per call, and predictions are exact."""
    profile = profile_device(FakeDevice(), CAMPAIGN, EFFORT, tmp_path)
    assert profile.replaced and profile.path == tmp_path / table_name(FINGERPRINT, "nasbench201")
    predictor = Predictor(LatencyTable.read(profile.path), SMALL)
    assert predictor.calibration.kappa == pytest.approx(1.0, rel=1e-6)
    assert predictor.calibration.b_ms == pytest.approx(CALL_MS, rel=1e-6)
    assert predictor.validation is not None and predictor.validation.passed
    generator = np.random.default_rng(5)
    for _ in range(5):
        genotype = random_genotype("nasbench201", generator)
        expected = CALL_MS + PARAMETER_MS * count_params(SMALL, genotype)
        assert predictor.predict(genotype).ms == pytest.approx(expected, rel=1e-6)
    assert not list(tmp_path.glob(".partial*"))


def test_networks_for_validation_are_not_in_the_fit() -> None:
    roles = CAMPAIGN.roles(SMALL)
    fit = [genotype.record() for genotype in roles.calibration]
    assert len(fit) == 6 and len(roles.validation) == 6
    assert all(genotype.record() not in fit for genotype in roles.validation)


def test_a_killed_profile_goes_on_and_ends_with_the_same_table(tmp_path: Path) -> None:
    whole, parts = FakeDevice(), FakeDevice()
    expected = profile_device(whole, CAMPAIGN, EFFORT, tmp_path / "whole").table

    def kill_after_round_two(share: float, note: str) -> None:
        if share >= 0.6:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="timings made so far are saved"):
        profile_device(FakeDevice(), CAMPAIGN, EFFORT, tmp_path / "parts", kill_after_round_two)
    assert [path.name for path in (tmp_path / "parts").iterdir()] == [
        f".partial__{table_name(FINGERPRINT, 'nasbench201')}"
    ]
    found = profile_device(parts, CAMPAIGN, EFFORT, tmp_path / "parts").table
    assert found.precisions == expected.precisions
    assert len(parts.log) < 0.8 * len(whole.log)


def test_an_interrupt_within_a_round_keeps_what_the_round_has(tmp_path: Path) -> None:
    def stop_late() -> Iterator[float]:
        yield from repeat(1.0, 400)
        raise KeyboardInterrupt

    device = FakeDevice(stop_late())
    with pytest.raises(Interrupted):
        profile_device(device, CAMPAIGN, Effort(rounds=1, calls=2, extra_rounds=0), tmp_path)
    (partial,) = tmp_path.iterdir()
    readings = json.loads(partial.read_text())["journal"]["readings"]
    assert 0 < sum(map(bool, readings.values())) < len(readings)


def test_timings_outlive_a_table_that_could_not_be_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at the last moment: the same command writes the table and times nothing again."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr("pipeline.latency.profiling.store_table", fail)
        profile_device(FakeDevice(), CAMPAIGN, EFFORT, tmp_path)
    again = FakeDevice()
    profile_device(again, CAMPAIGN, EFFORT, tmp_path)
    assert not again.log and not list(tmp_path.glob(".partial*"))


def test_a_table_that_is_there_has_its_pictures(tmp_path: Path) -> None:
    """Killed over its pictures, a profile is not done: the same command draws them again, and times nothing."""
    drawn: list[bool] = []

    def killed(table: LatencyTable, path: Path) -> None:
        drawn.append(path.exists())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profile_device(FakeDevice(), CAMPAIGN, EFFORT, tmp_path, draw=killed)
    again = FakeDevice()
    profile_device(again, CAMPAIGN, EFFORT, tmp_path, draw=lambda table, path: drawn.append(path.exists()))
    assert drawn == [False, False] and not again.log


def test_timings_go_once_they_are_in_their_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed with the table written, they are of no more use; killed before, they are, beside any older table."""
    store_table(made_table(SKELETON, seed=0), tmp_path)
    remove, partial = Path.unlink, tmp_path / f".partial__{table_name(FINGERPRINT, CAMPAIGN.space)}"

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path == partial:
            raise KeyboardInterrupt
        remove(path, missing_ok)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", killed)
        profile_device(FakeDevice(), CAMPAIGN, EFFORT, tmp_path)
    content = partial.read_bytes()
    sweep_stored(tmp_path)
    assert not partial.exists()
    for other in (content.replace(b'"stored_in": "', b'"stored_in": "x'), b"[]", b"garbage"):
        partial.write_bytes(other)
        sweep_stored(tmp_path)
        assert partial.exists()


@pytest.mark.parametrize("content", [b"\x00garbage", b'{"campaign": "another"}'])
def test_a_partial_file_that_is_of_no_use_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f".partial__{table_name(FINGERPRINT, 'nasbench201')}").write_bytes(content)
    assert profile_device(FakeDevice(), CAMPAIGN, EFFORT, tmp_path).table.column("fp32").sites


def test_times_that_give_no_table_are_not_taken_up_again(tmp_path: Path) -> None:
    """Networks that take a thousandth of their sites: refused, and the next profile starts afresh."""
    seconds = FakeDevice(cost=lambda m: module_ms(m) * (0.001 if type(m).__name__ == "FromPixels" else 1.0))
    with pytest.raises(UserError, match="milliseconds"):
        profile_device(seconds, CAMPAIGN, EFFORT, tmp_path)
    assert not list(tmp_path.iterdir())
    assert profile_device(FakeDevice(), CAMPAIGN, EFFORT, tmp_path).replaced


def test_a_failed_profile_never_replaces_a_good_table(tmp_path: Path) -> None:
    good = profile_device(FakeDevice(), CAMPAIGN, EFFORT, tmp_path)
    before = good.path.read_bytes()
    bad = profile_device(
        FakeDevice(cost=lambda m: 1.0 + 0.2 * module_ms(m) * bad_factor(m)), CAMPAIGN, EFFORT, tmp_path
    )
    assert not bad.replaced
    assert good.path.read_bytes() == before
    measured = bad.measured.column("fp32").skeletons[0].validation
    assert measured is not None and not measured.passed


def bad_factor(module: Any) -> float:
    """Off by up to half for whole networks, by their number of parameters."""
    count = sum(parameter.numel() for parameter in module.parameters())
    return 1.0 + 0.5 * ((count * 7919) % 13 / 6.0 - 1.0) if type(module).__name__ == "FromPixels" else 1.0


def test_a_failed_profile_is_better_than_none_and_is_replaced_by_a_good_one(tmp_path: Path) -> None:
    bad = profile_device(
        FakeDevice(cost=lambda m: 1.0 + 0.2 * module_ms(m) * bad_factor(m)), CAMPAIGN, EFFORT, tmp_path
    )
    assert bad.replaced
    good = profile_device(FakeDevice(), CAMPAIGN, EFFORT, tmp_path)
    assert good.replaced
    validation = LatencyTable.read(good.path).column("fp32").skeletons[0].validation
    assert validation is not None and validation.passed


def test_a_second_skeleton_joins_the_first(tmp_path: Path) -> None:
    other = replace(SMALL, channels=8)
    profile_device(FakeDevice(), CAMPAIGN, EFFORT, tmp_path)
    joined = profile_device(FakeDevice(), replace(CAMPAIGN, skeletons=(other,)), EFFORT, tmp_path).path
    table = LatencyTable.read(joined)
    genotype = random_genotype("nasbench201", np.random.default_rng(0))
    for skeleton in (SMALL, other):
        expected = CALL_MS + PARAMETER_MS * count_params(skeleton, genotype)
        assert Predictor(table, skeleton).predict(genotype).ms == pytest.approx(expected, rel=1e-6)


def test_joining_keeps_old_times_where_new_ones_would_spoil_a_valid_skeleton(tmp_path: Path) -> None:
    """Old networks follow old site times; times drawn anew would fit them badly."""
    deep = replace(SKELETON, cells=8)
    store_table(made_table(deep, seed=0), tmp_path)
    newcomer = made_table(replace(SKELETON, cells=9), seed=4)
    merged = store_table(newcomer, tmp_path)
    assert not merged.replaced or all(
        entry.validation is not None and entry.validation.passed for entry in merged.table.column("fp32").skeletons
    )
    assert Predictor(LatencyTable.read(merged.path), deep).validation is not None


def test_an_unreadable_table_is_simply_replaced(tmp_path: Path) -> None:
    path = tmp_path / table_name(FINGERPRINT, "nasbench201")
    path.write_bytes(b"garbage")
    assert profile_device(FakeDevice(), CAMPAIGN, EFFORT, tmp_path).replaced
    assert LatencyTable.read(path).space == "nasbench201"


def test_noise_of_the_clock_is_reported(tmp_path: Path) -> None:
    def jitter() -> Iterator[float]:
        generator = np.random.default_rng(0)
        while True:
            yield float(generator.uniform(1.0, 1.1))

    noisy = profile_device(FakeDevice(jitter()), CAMPAIGN, EFFORT, tmp_path / "noisy")
    quiet = profile_device(FakeDevice(repeat(1.0)), CAMPAIGN, EFFORT, tmp_path / "quiet")
    assert quiet.table.column("fp32").noise_floor == 0.0
    assert 0.005 < noisy.table.column("fp32").noise_floor < 0.02, "1.96 · 0.1 / (2 √122) of 1.05, for a median of 120"
