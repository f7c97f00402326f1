"""Profiling: a campaign measured on a device into a table, taken up again after a kill, joined with what is there."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.artifacts.latency_table import LatencyTable
from pipeline.errors import Interrupted, PipelineError
from pipeline.latency.campaign import Campaign, make_table, model_groups
from pipeline.latency.measure import Device, Effort, Journal, Measurement, journal_from_record, measure_models
from pipeline.latency.merging import merge_tables
from pipeline.latency.models import make_sentinel
from pipeline.latency.table import readable_table, table_name
from pipeline.whole_files import read_regular, write_text

Progress = Callable[[float, str], None]
Draw = Callable[[LatencyTable, Path], None]

_PARTIAL, _STORED = ".partial__", "stored_in"
_MEMORY_SHARE = 10  # of the memory may be weights of networks that are timed together


@dataclass(frozen=True)
class Profile:
    """What profiling left in `path`; `replaced` is False when the new figures were worse than valid old ones."""

    path: Path
    table: LatencyTable
    measured: LatencyTable
    replaced: bool


def profile_device(
    device: Device,
    campaign: Campaign,
    effort: Effort,
    folder: Path,
    progress: Progress = lambda share, note: None,
    draw: Draw = lambda table, path: None,
) -> Profile:
    """Measure the campaign and put its table into `folder`; after a kill the same call goes on where it stopped."""
    partial = folder / f"{_PARTIAL}{table_name(device.fingerprint, campaign.space)}"

    def prepare(stored: LatencyTable, path: Path) -> None:
        draw(stored, path)
        _mark_stored(partial, stored)

    measurement = measure_campaign(device, campaign, effort, partial, progress)
    try:
        profile = store_table(make_table(campaign, device.fingerprint, measurement), folder, prepare)
    except PipelineError:
        partial.unlink(missing_ok=True)  # a campaign that gives no table must not be taken up again
        raise
    partial.unlink(missing_ok=True)
    return profile


def _mark_stored(partial: Path, table: LatencyTable) -> None:
    """Note in which table the timings are, before it is written: who finds both knows that they are of no more use."""
    if partial.is_file():
        record = json.loads(read_regular(partial))
        write_text(partial, json.dumps({**record, _STORED: table.record()["sha256"]}, allow_nan=False))


def sweep_stored(folder: Path) -> None:
    """Remove timings that are in their table: the profile was killed when all was done but that."""
    for partial in folder.glob(f"{_PARTIAL}*.json"):
        table = folder / partial.name.removeprefix(_PARTIAL)
        with suppress(OSError, ValueError, KeyError, TypeError):
            if json.loads(read_regular(partial))[_STORED] == json.loads(read_regular(table))["sha256"]:
                partial.unlink()


def store_table(table: LatencyTable, folder: Path, draw: Draw = lambda table, path: None) -> Profile:
    """Join the table with the one in `folder`; valid figures are never replaced by invalid ones.

    What `draw` leaves beside it comes first: a table that is there has its pictures.
    """
    path = folder / table_name(table.fingerprint, table.space)
    old, stored, replaced = readable_table(path), table, True
    if old is not None and old.fingerprint == table.fingerprint:
        merged = merge_tables(old, table)
        stored, replaced = (old, False) if merged is None else (merged, True)
    draw(stored, path)
    if replaced:
        stored.write(path)
    return Profile(path, stored, table, replaced)


def measure_campaign(
    device: Device,
    campaign: Campaign,
    effort: Effort,
    partial: Path | None = None,
    progress: Progress = lambda share, note: None,
) -> Measurement:
    """Time everything in the campaign; `partial` keeps what is done after every round."""
    key = {"campaign": campaign.digest, "effort": asdict(effort), "device": device.fingerprint.record()}
    journal = _take_up(partial, key) if partial else Journal()
    groups = model_groups(campaign, device, _memory_bytes() // _MEMORY_SHARE)
    total, done = sum(len(group) for group in groups), 0
    sentinel = make_sentinel(device)

    def keep() -> None:
        if partial:
            write_text(partial, json.dumps({**key, "journal": journal.record()}, allow_nan=False))

    try:
        for group in groups:
            share = len(group) / total
            before = done / total

            def after_round(_: Journal, part: float, before: float = before, share: float = share) -> None:
                progress(before + share * part, f"{total} models")
                keep()

            if not _is_done(journal, list(group), effort):
                progress(before, "building")
                models = {name: make() for name, make in group.items()}
                measure_models(device, models, sentinel, effort, journal, after_round)
            done += len(group)
    except KeyboardInterrupt:
        keep()
        raise Interrupted("interrupted: the timings made so far are saved; run the same command to go on") from None
    progress(1.0, "done")
    return journal.measurement()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _is_done(journal: Journal, names: list[str], effort: Effort) -> bool:
    return all(len(journal.readings.get(name, ())) >= effort.rounds * effort.calls for name in names)


def _take_up(partial: Path, key: dict[str, Any]) -> Journal:
    """The samples of a profile that was stopped, if it was this one."""
    try:
        record = json.loads(read_regular(partial))
        if all(record[name] == value for name, value in key.items()):
            return journal_from_record(record["journal"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return Journal()
