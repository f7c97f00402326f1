"""The latency table of a run: found by the fingerprint of its target, for the networks around its skeletons."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.stages.context import Context

if TYPE_CHECKING:
    from pipeline.artifacts.latency_table import LatencyTable
    from pipeline.latency.budget_rule import Measured
    from pipeline.latency.predictor import Predictor
    from pipeline.latency.target import TargetMachine
    from pipeline.space.genotype import Genotype
    from pipeline.space.skeleton import Skeleton


@dataclass(frozen=True)
class TargetTable:
    """This machine, opened, and what is known about the target: the machine of the table."""

    machine: "TargetMachine"
    table: "LatencyTable"

    @property
    def differences(self) -> list[str]:
        """What differs between the table's machine and this one; not empty only under --allow-mismatch."""
        from pipeline.fingerprint import describe_differences

        return describe_differences(self.table.fingerprint, self.machine.device.fingerprint)

    @property
    def sentinel_ms(self) -> float:
        """How fast the target runs the sentinel when it is quiet."""
        return self.table.column("fp32").sentinel_ms

    def time_network(self, skeleton: "Skeleton", genotype: "Genotype") -> "Measured":
        """The latency on the target: measured where it is this machine, by its own table where it is another."""
        return self.expect(skeleton, genotype) if self.differences else self.machine.time_network(skeleton, genotype)

    def expect(self, skeleton: "Skeleton", genotype: "Genotype") -> "Measured":
        """What the target's table says of a network."""
        return self.predictor(skeleton).expect(genotype)

    def predictor(self, skeleton: "Skeleton") -> "Predictor":
        from pipeline.latency.predictor import Predictor

        return Predictor(self.table, skeleton)


def open_target_table(context: Context) -> TargetTable:
    """The machine and its table; a missing or foreign table is refused.

    A table of this very machine says how fast it runs the sentinel when it is quiet.
    """
    from pipeline.latency.table import find_table

    target, machine = context.config.target, open_target(context)
    here = machine.device.fingerprint
    table = find_table(context.run.tables, here, target.space, table_path(context), target.allow_mismatch)
    known_ms = table.column("fp32").sentinel_ms if table.fingerprint == here else None
    return TargetTable(replace(machine, sentinel_ms=known_ms), table)


def open_target(context: Context) -> "TargetMachine":
    """The target, driven by what the table is measured with."""
    from pipeline.latency.target import TargetMachine

    return TargetMachine.of(context.config.target, context.config.profile.backend)


def table_path(context: Context) -> Path:
    """Where the table lies, or will lie."""
    from pipeline.latency.table import table_name

    target = context.config.target
    if target.table:
        return context.run.project / target.table
    return context.run.tables / table_name(open_target(context).device.fingerprint, target.space)


def skeletons_of(context: Context) -> "Sequence[Skeleton]":
    """Every skeleton that networks may be selected in."""
    from pipeline.budget.targets import skeleton_grid

    settings = context.config.discretize
    return skeleton_grid(context.target_skeleton, settings.cells_grid, settings.channels_grid)


def check_budget(context: Context) -> None:
    """Refuse a budget that no network is predicted to keep: by the table it takes seconds to know."""
    from pipeline.budget.feasibility import check_feasible
    from pipeline.budget.targets import Demands, make_targets
    from pipeline.space.spaces import space_named

    target, table = context.config.target, open_target_table(context)
    targets = make_targets(list(skeletons_of(context)), table.predictor)
    check_feasible(space_named(target.space), targets, Demands.of(target, target.budget_ms))


def table_hash(context: Context) -> str | None:
    """The sha256 of what the table says about this run's networks; other skeletons in the same file do not matter.

    None where the table does not know them all.
    """
    from pipeline.latency.table import readable_table
    from pipeline.space.plan import all_sites

    table, known = readable_table(table_path(context)), []
    if table is None:
        return None
    for skeleton in skeletons_of(context):
        column = table.precisions.get("fp32")
        entry = None if column is None else column.entry(skeleton)
        sites = [] if column is None else [column.sites.get(site.key) for site in all_sites(skeleton)]
        if entry is None or None in sites:
            return None
        known.append([entry.model_dump(mode="json"), [site.model_dump() for site in sites if site]])
    text = json.dumps([table.fingerprint.record(), known], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
