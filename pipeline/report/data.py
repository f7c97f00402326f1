"""What `pipeline check` found in the data, for people and for programs."""

from typing import Any

from rich.table import Table

from pipeline.console import print_result, say, show
from pipeline.data.check import DataCheck, Size
from pipeline.data.folder import describe_refused
from pipeline.errors import UserError

_LISTED = 20


def report_check(check: DataCheck, as_json: bool) -> None:
    """Figures on stdout, the classes and what is odd on stderr; images that cannot be used end it with a refusal."""
    print_result({**_summarize(check), **(_detail(check) if as_json else {})}, as_json)
    if not as_json:
        show(_class_table(check))
        for pair in (check.duplicates or [])[:_LISTED]:
            say(f"the test image {pair.test} is the training image {pair.training}: accuracy will flatter")
    if check.refusals:
        raise UserError(describe_refused(check.refusals))


def _detail(check: DataCheck) -> dict[str, Any]:
    """What a program wants besides."""
    counts = {name: dict(zip(check.labels, own, strict=True)) for name, own in check.counts.items()}
    pairs = None if check.duplicates is None else [pair._asdict() for pair in check.duplicates]
    empty = list(map(str, check.empty_folders))
    return {"refused": check.refusals, "empty_folders": empty, "duplicates": pairs, "per_class": counts}


def _summarize(check: DataCheck) -> dict[str, Any]:
    """One figure or text each."""
    parts = {name: sum(counts) for name, counts in check.counts.items()}
    totals = [sum(own) for own in zip(*check.counts.values(), strict=True)]
    return {
        "classes": len(check.labels),
        "images": sum(parts.values()),
        **parts,
        "smallest_class": min(totals),
        "largest_class": max(totals),
        **_describe_sizes(check.sizes),
        "decoded": check.decoded,
        "refused": len(check.refusals),
        "empty_folders": len(check.empty_folders),
        "duplicates": None if check.duplicates is None else len(check.duplicates),
    }


def _describe_sizes(sizes: list[Size]) -> dict[str, str]:
    if not sizes:
        return {}
    ordered = sorted(sizes, key=lambda size: (min(size), max(size)))  # of the same short side, by the long one
    named = {"smallest_px": ordered[0], "median_px": ordered[len(ordered) // 2], "largest_px": ordered[-1]}
    return {name: f"{size.width}×{size.height}" for name, size in named.items()} | {"sizes_by": "shorter-side"}


def _class_table(check: DataCheck) -> Table:
    table = Table("class", *check.counts)
    rows = list(zip(check.labels, *check.counts.values(), strict=True))
    for label, *counts in rows[:_LISTED]:
        table.add_row(str(label), *map(str, counts))
    if len(rows) > _LISTED:
        table.add_row(f"… {len(rows) - _LISTED} more", *[""] * len(check.counts))
    return table
