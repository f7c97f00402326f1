"""The dry run: sizes are those of the search, time and memory are scaled from small steps."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.presets import preset
from pipeline.search.preview import Meters, Preview, Timed, preview_search
from pipeline.search_config import SearchConfig
from pipeline.space.plan import plan_of
from pipeline.space.skeleton import Skeleton
from tests.search.problem import make_search

MEGABYTE = 1_000_000
STEPS, ARCHITECTURE_STEPS, T, LOOKED = 1000, 40, 16, 300
SKELETON = Skeleton("darts", 5, 8, 32, 3, stem="cifar")


class Machine:
    """A weight step takes `step_s` + `image_s` per image, an architecture step a third of that for each network that it
    judges, four groups of six, and twice that for each of the four of the implicit part; a batch that guards look at a
    third.

    All steps before the first report take half as long again; a network of the implicit part takes `image_bytes` per
    image.
    """

    def __init__(self, step_s: float, image_s: float, image_bytes: int = 0) -> None:
        self.now_s, self.peak_bytes = 100.0, 500 * MEGABYTE
        self.step_s, self.image_s, self.image_bytes = step_s, image_s, image_bytes
        self.advanced: list[int] = []
        self.slowdown = 1.0
        self.lost_s, self.disturbed = 0.0, set[int]()

    def make(self, settings: Mapping[str, int]) -> Any:
        steps = reports = 0
        batch, asked = settings["batch_size"], {"implicit_networks": 4, **settings}

        def advance() -> object:
            nonlocal steps, reports
            steps += 1
            self.advanced.append(batch)
            self.lost_s += 40.0 if len(self.advanced) in self.disturbed else 0.0
            is_report = steps % search.inner_steps == 0 and not search.warmup_epochs
            networks, groups = (asked["implicit_networks"], -(-search.inner_steps // 4)) if is_report else (0, 0)
            whole = 1 + 2 * networks + 6 * groups / 3
            self.now_s += (self.step_s + self.image_s * batch) * whole * (1 if reports else 1.5)
            self.peak_bytes = max(self.peak_bytes, 500 * MEGABYTE + self.image_bytes * batch * networks)
            reports += is_report
            return "report" if is_report else None

        state = SimpleNamespace(supernet=SimpleNamespace(parameters=list), alphas=[])
        images = SimpleNamespace(images=range(640))
        search = SimpleNamespace(
            advance=advance, state=state, train=images, validation=images, total_steps=STEPS, inner_steps=T,
            architecture_steps=ARCHITECTURE_STEPS, warmup_epochs=3, steps_per_operation=STEPS // 7,
            looked_batches=LOOKED, group_size=6, judged_groups=4, implicit_networks=asked["implicit_networks"],
        )  # fmt: skip
        return search

    def preview(self, batch_size: int = 64) -> Preview:
        meters = Meters(lambda: self.slowdown * self.now_s + self.lost_s, lambda: self.now_s, lambda: self.peak_bytes)
        return preview_search(self.make, batch_size, meters)

    def whole_s(self, batch: int) -> float:
        return (self.step_s + self.image_s * batch) * (STEPS + 16 * ARCHITECTURE_STEPS + LOOKED / 3)


def test_a_slow_search_is_scaled_from_small_steps() -> None:
    machine = Machine(step_s=0.02, image_s=0.05, image_bytes=10 * MEGABYTE)
    found = machine.preview()
    assert max(machine.advanced) < 64 and machine.now_s - 100.0 < 15
    assert len(machine.advanced) == 2 * 2 * 2, "two cycles of two weight steps for two batches, not of T"
    assert found.eta_s == pytest.approx(machine.whole_s(64)), "architecture steps are those after the warm-up"
    assert found.memory_bytes == pytest.approx(500e6 + 4 * 640e6), "the four networks are in memory together"
    line = found.lines(preset("folder").search, SKELETON)[3]
    assert "scaled from steps of 2 and 8 images to 64" in line and "memory: about 3.1 GB" in line


def test_a_quick_search_is_timed_as_it_is() -> None:
    machine = Machine(step_s=0.001, image_s=0.0001)
    found = machine.preview(32)
    assert found.timed[-1].batch == 32 and found.eta_s == pytest.approx(machine.whole_s(32))
    lines = found.lines(SearchConfig(), SKELETON)
    assert "scaled" not in lines[3] and len(lines) == 4, "nobody wants it shorter"


def test_a_step_that_takes_minutes_is_timed_once() -> None:
    machine = Machine(step_s=0.0, image_s=3.0)
    found = machine.preview()
    assert machine.advanced == [2] * 2
    assert found.eta_s == pytest.approx(1.5 * machine.whole_s(64)), "the first cycle is all there is"


@pytest.mark.parametrize(("megabytes", "batches"), [(50, [2, 8]), (100, [2, 4]), (300, [2])])
def test_memory_stops_it_before_time_does(megabytes: int, batches: list[int]) -> None:
    machine = Machine(step_s=0.001, image_s=0.0001, image_bytes=megabytes * MEGABYTE)
    found = machine.preview()
    assert [timed.batch for timed in found.timed] == batches
    assert machine.peak_bytes <= 2000 * MEGABYTE
    assert found.memory_bytes == pytest.approx(500e6 + 4 * 64 * megabytes * 1e6)


def test_settings_that_would_shrink_it_come_with_their_times() -> None:
    machine = Machine(step_s=0.02, image_s=0.02)
    found = machine.preview()
    (line,) = [line for line in found.lines(preset("folder").search, SKELETON) if line.startswith("shorter: ")]
    assert found.eta_s == pytest.approx(2262)
    assert "[search] epochs = 12 takes about 0:18:06" in line
    assert "[search] batch_size = 16 with epochs = 12, as many steps, about 0:19:08" in line
    assert "[search] resolution = 16 about 0:09:52" in line, "a quarter of 2227 s, and 35 s that images do not cause"
    assert "[search] channels = 4 about 0:19:08" in line


@pytest.mark.parametrize(("steps", "is_said"), [(4000, False), (3999, True)])
def test_half_the_epochs_are_named_with_what_they_cost(steps: int, is_said: bool) -> None:
    found = replace(Machine(step_s=0.02, image_s=0.02).preview(), steps_per_operation=steps)
    (line,) = [line for line in found.lines(SearchConfig(epochs=24), SKELETON) if line.startswith("shorter: ")]
    assert ("(and makes 1,999 steps per operation, below 2,000)" in line) is is_said


def test_a_time_that_is_scaled_from_one_batch_is_said_to_be_the_most() -> None:
    found = Machine(step_s=0.02, image_s=0.02).preview()
    lines = replace(found, timed=found.timed[:1]).lines(preset("folder").search, SKELETON)
    assert "at the most (scaled from steps of 2 images alone to 64)" in lines[3]


def test_settings_that_would_save_little_are_not_named() -> None:
    same = tuple(Timed(batch, weight_s=1.0, architecture_s=0.0, peak_bytes=0) for batch in (2, 8))
    found = replace(Machine(step_s=0.02, image_s=0.02).preview(), timed=same)  # images cost nothing that was seen
    (line,) = [line for line in found.lines(preset("folder").search, SKELETON) if line.startswith("shorter: ")]
    assert "epochs" in line and "resolution" not in line and "channels" not in line


@pytest.mark.parametrize(
    ("resolution", "channels", "wanted"), [(28, 6, {"resolution", "channels"}), (8, 2, {"resolution"}), (4, 1, set())]
)
def test_settings_that_are_named_can_be_built(resolution: int, channels: int, wanted: set[str]) -> None:
    skeleton = replace(SKELETON, resolution=resolution, channels=channels)
    *_, line = Machine(step_s=0.02, image_s=0.02).preview().lines(SearchConfig(epochs=1), skeleton)
    named: dict[str, Any] = {name: int(value) for name, value in re.findall(r"\[search\] (\w+) = (\d+)", line)}
    assert named.keys() == wanted
    plan_of(replace(skeleton, **named))


def test_a_busy_machine_changes_the_time_and_not_what_it_is_scaled_from() -> None:
    found = []
    for slowdown in (1.0, 30.0):
        machine = Machine(step_s=0.001, image_s=0.0001)
        machine.slowdown = slowdown
        found.append(machine.preview(32))
    assert found[1].timed[-1].batch == 32 and found[1].eta_s == pytest.approx(30 * found[0].eta_s)
    quiet, busy = (one.lines(SearchConfig(), SKELETON)[3] for one in found)
    assert "other programs" not in quiet and "beside the other programs" in busy
    assert quiet.split("about ")[1].split(" on ")[0] == busy.split("about ")[1].split(" on a quiet machine")[0]
    longer = Machine(step_s=0.02, image_s=0.02)
    longer.slowdown = 2.0
    assert longer.preview().lines(preset("folder").search, SKELETON)[-1].startswith("shorter beside them: ")


def test_another_program_that_takes_the_machine_for_a_moment_makes_no_hours_of_it() -> None:
    quiet, disturbed = Machine(step_s=0.001, image_s=0.0001), Machine(step_s=0.001, image_s=0.0001)
    disturbed.disturbed = {4, 19, 30}  # the last steps of all among them
    assert disturbed.preview(32).eta_s == pytest.approx(quiet.preview(32).eta_s)
    assert disturbed.lost_s == 120.0


def test_steps_that_grow_faster_than_their_images_are_scaled_in_proportion() -> None:
    timed = tuple(Timed(batch, weight_s, 0.0, 0) for batch, weight_s in ((2, 0.1), (8, 2.0)))
    found = replace(Machine(step_s=0.02, image_s=0.02).preview(), timed=timed)
    assert found.eta_s == pytest.approx((STEPS + LOOKED / 3) * 2.0 * 64 / 8), "no images take no less than nothing"


def test_size_of_a_search(tmp_path: Path) -> None:
    whole = make_search(tmp_path)
    found = preview_search(lambda settings: make_search(tmp_path, **dict[str, Any](settings)), whole.config.batch_size)
    assert (found.steps, found.inner_steps) == (whole.total_steps, whole.inner_steps)
    assert found.weights == sum(p.numel() for p in whole.state.supernet.parameters())
    assert found.architecture_steps == whole.architecture_steps and found.eta_s > 0
    assert found.steps_per_operation == whole.total_steps  # a mixture trains all operations at once
    operations = len(whole.state.supernet.space.kinds[0].operations) - 1  # `none` is not trained
    assert make_search(tmp_path, paths="fair").steps_per_operation == whole.total_steps // operations
