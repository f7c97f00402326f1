"""Writing a timing kit, as the stages that have one do it."""

from pathlib import Path

from pipeline.console import progress_bar, say
from pipeline.latency.kit import Kit, write_kit


def write_with_bar(kit: Kit, folder: Path) -> None:
    """The kit in its folder, and what to do with it."""
    with progress_bar() as bar:
        task = bar.add_task("writing the kit", total=100, note="")
        write_kit(kit, folder, lambda share: bar.update(task, completed=round(100 * share)))
    say(f"{folder} is ready: copy it to the target, run `python time_kit.py` there and bring kit_result.json back")
    say(f"next: pipeline {kit.command} --from-kit kit_result.json")
