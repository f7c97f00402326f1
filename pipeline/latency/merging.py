"""Joining a new table with the one on disk, so that nothing valid is ever lost."""

from pipeline.artifacts.latency_table import Column, LatencyTable, Precision, SiteTime, SkeletonEntry
from pipeline.errors import UserError
from pipeline.latency.campaign import fit_entry
from pipeline.space.skeleton import Skeleton


def merge_tables(old: LatencyTable, new: LatencyTable) -> LatencyTable | None:
    """Both tables in one; None when that would turn something valid into something invalid.

    Calibrations are fitted again from the networks' times, which both tables hold. Where both know a site, the new
    time is taken, or the old one if only so everything that was valid stays valid.
    """
    columns: dict[Precision, Column] = {}
    for precision in old.precisions.keys() | new.precisions.keys():
        before, after = old.precisions.get(precision), new.precisions.get(precision)
        joined = _merge_columns(before, after) if before and after else (after or before)
        if joined is None:
            return None
        columns[precision] = joined
    return new.model_copy(update={"precisions": dict(sorted(columns.items()))})


def _merge_columns(old: Column, new: Column) -> Column | None:
    replaced = [entry.skeleton for entry in new.skeletons]
    kept = [entry for entry in old.skeletons if entry.skeleton not in replaced]
    valid = [entry.skeleton for entry in (*old.skeletons, *new.skeletons) if is_valid(entry)]
    for sites in ({**old.sites, **new.sites}, {**new.sites, **old.sites}):
        try:
            entries = [_refit(entry, sites) for entry in (*kept, *new.skeletons)]
        except UserError:  # the times of one do not fit the networks of the other at all
            continue
        if all(is_valid(entry) for entry in entries if entry.skeleton in valid):
            return new.model_copy(update={"sites": sites, "skeletons": entries})
    return None


def is_valid(entry: SkeletonEntry) -> bool:
    return entry.validation is not None and entry.validation.passed


def _refit(entry: SkeletonEntry, sites: dict[str, SiteTime]) -> SkeletonEntry:
    return fit_entry(Skeleton(**entry.skeleton), sites, entry.calibration_networks, entry.validation_networks)
