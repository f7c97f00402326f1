"""`pipeline init` and `pipeline check`."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.presets import render_preset
from tests.cli.conftest import Run, refused


def test_init_writes_little_or_everything(pipeline: Run, tmp_path: Path) -> None:
    for flags in ([], ["--full", "--force"]):
        assert pipeline("init", "--preset", "folder", *flags, cwd=tmp_path).returncode == 0
        assert (tmp_path / "pipeline.toml").read_text() == render_preset("folder", full=bool(flags))


def test_check_prints_what_it_found_and_ends_with_2_on_damage(pipeline: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(5):
            pixels = random.integers(0, 256, (9, 9, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / label / f"{number}.png")
    (tmp_path / "images" / "fish").mkdir()
    assert pipeline("init", "--preset", "folder", cwd=tmp_path).returncode == 0
    done = pipeline("check", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"images": "10", "classes": "2", "duplicates": "0", "largest_px": "9×9"}.items() <= dict(
        line.split() for line in done.stdout.splitlines()
    ).items()
    assert "fish holds no image" in done.stderr
    assert done.stderr.rstrip().endswith("next: pipeline profile")
    (tmp_path / "images" / "cat" / "3.png").write_bytes(b"no image")
    before = sorted(tmp_path.rglob("*"))
    done = pipeline("check", "--json", cwd=tmp_path)
    assert done.returncode == 2 and "3.png is damaged" in done.stderr
    found = json.loads(done.stdout)
    assert (found["classes"], len(found["refused"]), len(found["empty_folders"])) == (2, 1, 1)
    refused(pipeline("profile", cwd=tmp_path), "3.png is damaged")
    left = {path.name for path in set(tmp_path.rglob("*")) - set(before)}
    assert left <= {"runs", "default", ".lock"}, "found before anything is timed"
