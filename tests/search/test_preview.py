"""The dry run: sizes are those of the search, time and memory are scaled from small steps."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.config import Config
from pipeline.presets import preset
from pipeline.search.preview import Preview, preview_search
from tests.search.problem import make_search

CYCLE, MEGABYTE = 4, 1_000_000


class Machine:
    """A step takes `step_s` + `image_s` per image, three times that in the first cycle, and so many bytes."""

    def __init__(self, step_s: float, image_s: float, image_bytes: int = 0) -> None:
        self.now_s, self.peak_bytes = 100.0, 500 * MEGABYTE
        self.step_s, self.image_s, self.image_bytes = step_s, image_s, image_bytes
        self.advanced: list[int] = []

    def make(self, batch: int) -> Any:
        steps = 0

        def advance() -> object:
            nonlocal steps
            self.now_s += (self.step_s + self.image_s * batch) * (3 if steps < CYCLE else 1)
            self.peak_bytes = max(self.peak_bytes, 500 * MEGABYTE + self.image_bytes * batch)
            steps += 1
            self.advanced.append(batch)
            return "report" if steps % CYCLE == 0 else None

        state = SimpleNamespace(supernet=SimpleNamespace(parameters=list), alphas=[])
        images = SimpleNamespace(images=range(640))
        return SimpleNamespace(
            advance=advance, state=state, train=images, validation=images, total_steps=1000, inner_steps=CYCLE
        )

    def preview(self, batch_size: int = 64) -> Preview:
        return preview_search(self.make, batch_size, lambda: self.now_s, lambda: self.peak_bytes)


def test_a_slow_search_is_scaled_from_small_steps() -> None:
    machine = Machine(step_s=0.02, image_s=0.05, image_bytes=10 * MEGABYTE)
    found = machine.preview()
    assert max(machine.advanced) < 64 and machine.now_s - 100.0 < 12
    assert found.cycle_s == pytest.approx(CYCLE * (0.02 + 0.05 * 64))
    assert found.eta_s == pytest.approx(1000 * (0.02 + 0.05 * 64))
    assert found.memory_bytes == pytest.approx(500e6 + 640e6)
    config = preset("folder")
    line = found.lines(config)[3]
    assert "scaled from steps of 2 and 4 images to 64" in line and "memory: about 1.1 GB" in line


def test_a_quick_search_is_timed_as_it_is() -> None:
    machine = Machine(step_s=0.001, image_s=0.0001)
    found = machine.preview(32)
    assert found.timed[-1].batch == 32 and found.cycle_s == pytest.approx(CYCLE * 0.0042)
    assert "scaled" not in found.lines(Config())[3]
    assert len(found.lines(Config())) == 4, "nobody wants it shorter"


def test_a_step_that_takes_minutes_is_timed_once() -> None:
    machine = Machine(step_s=0.0, image_s=3.0)
    found = machine.preview()
    assert machine.advanced == [2] * CYCLE
    assert found.eta_s == pytest.approx(1000 * 64 * 3.0 * 3), "the first cycle is all there is"


def test_memory_stops_it_before_time_does() -> None:
    machine = Machine(step_s=0.001, image_s=0.0001, image_bytes=100 * MEGABYTE)
    found = machine.preview()
    assert machine.peak_bytes <= 2000 * MEGABYTE
    assert found.memory_bytes == pytest.approx(500e6 + 6400e6)


def test_settings_that_would_shrink_it_come_with_their_times() -> None:
    found = Machine(step_s=0.02, image_s=0.05).preview()
    (line,) = [line for line in found.lines(preset("folder")) if line.startswith("shorter: ")]
    assert found.eta_s == pytest.approx(3220)
    assert "[search] epochs = 12 takes about 0:25:46" in line
    assert "[data] resolution = 32 about 0:13:40" in line, "a quarter of 3200 s, and the 20 s that images do not cause"
    assert "[search] channels = 4 about 0:27:00" in line


def test_size_of_a_search(tmp_path: Path) -> None:
    whole = make_search(tmp_path)
    found = preview_search(lambda batch: make_search(tmp_path, batch_size=batch), whole.config.batch_size)
    assert (found.steps, found.inner_steps) == (whole.total_steps, whole.inner_steps)
    assert found.weights == sum(p.numel() for p in whole.state.supernet.parameters())
    assert found.architecture_steps == whole.total_steps // whole.inner_steps and found.cycle_s > 0
