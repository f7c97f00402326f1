"""How it was made: settings that differ from the nearest preset, the environment, times, commands."""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from pipeline.config import Config
from pipeline.presets import PRESET_NAMES, preset
from pipeline.report.contents import Contents
from pipeline.report.layout import Cell, section, sources, table
from pipeline.report.markup import Child, tag


class Change(NamedTuple):
    """A setting here and in the preset."""

    name: str
    here: object
    there: object


def changes_from(config: Config, other: Config) -> list[Change]:
    """Every setting in which two configurations differ."""
    changes = []
    for section_name, own in config:
        for name, value in own:
            there = getattr(getattr(other, section_name), name)
            if value != there:
                changes.append(Change(f"[{section_name}] {name}", value, there))
    return changes


def make_settings(contents: Contents) -> Element:
    return section(
        "settings",
        "How it was made",
        [] if contents.config is None else _differences(contents, contents.config),
        _reproduce(contents),
        _environment(contents),
    )


def _differences(contents: Contents, config: Config) -> list[Child]:
    nearest = min(PRESET_NAMES, key=lambda name: len(changes_from(config, preset(name))))
    changes = changes_from(config, preset(nearest))
    kept = contents.run.latest_config()
    source = sources(contents.place(kept) if kept.is_file() else None)
    if not changes:
        return [tag("p", f"Settings are those of the preset {nearest}.", source)]
    rows: list[list[Child | Cell]] = [[one.name, _show(one.here), _show(one.there)] for one in changes]
    words = f"Settings that differ from the nearest preset, {nearest}."
    return [table(("setting", "here", nearest), rows, words), tag("p", source)]


def _show(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _reproduce(contents: Contents) -> list[Child]:
    run, kept = contents.run.name, contents.run.latest_config().name
    lines = (f"cp runs/{run}/{kept} again.toml", f"pipeline run --config again.toml --run {run}-again")
    words = (
        "The same settings, data, versions and machine give the same weights to the bit; latencies are measured "
        "anew, so that another network may be chosen where two are within the noise."
    )
    return [tag("h3", "To make it again"), tag("pre", "\n".join(lines)), tag("p", words)]


def _environment(contents: Contents) -> list[Child]:
    parts: list[Child] = []
    if contents.seconds:
        rows: list[list[Child | Cell]] = [
            [stage, Cell(str(timedelta(seconds=round(seconds))), seconds)]
            for stage, seconds in contents.seconds.items()
        ]
        parts += [tag("h3", "What it took"), table(("stage", "time"), rows, numeric=(1,))]
    if contents.environment:
        rows = [[name, value] for name, value in _flatten(contents.environment)]
        parts += [tag("h3", "Environment"), table(("what", "is"), rows)]
        parts.append(tag("p", sources(contents.place(contents.run.environment))))
    return parts


def _flatten(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flatten(value)
        else:
            yield name.replace("_", " "), str(value)
