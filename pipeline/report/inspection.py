"""`pipeline inspect`: what a genotype costs, by itself or as a run chose it."""

from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.artifacts.network import ChosenNetwork
from pipeline.console import progress_bar, say
from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint
from pipeline.latency.devices import open_device
from pipeline.latency.inspection import Inspection, inspect_genotype
from pipeline.latency.predictor import Predictor
from pipeline.latency.table import find_table, table_name
from pipeline.rundir import RunDir
from pipeline.space.genotype import Genotype, read_genotype
from pipeline.space.plan import plan_of
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named


@dataclass(frozen=True)
class Size:
    """The parts of a skeleton that were asked for; None keeps what the run, or the literature, has."""

    cells: int | None = None
    channels: int | None = None
    resolution: int | None = None
    classes: int | None = None
    in_channels: int | None = None

    def applied_to(self, skeleton: Skeleton) -> Skeleton:
        return replace(skeleton, **{name: value for name, value in vars(self).items() if value is not None})


@dataclass(frozen=True)
class Machine:
    """The target that predictions and measurements are for, and the table to use instead of its own."""

    device: str
    threads: int
    tables: Path
    table: Path | None
    allow_mismatch: bool


def inspect_file(path: Path, size: Size, machine: Machine, measure: bool) -> Inspection:
    """The network of a genotype file, at the size of the literature unless said otherwise."""
    genotype = read_genotype(path)
    return _inspect(size.applied_to(space_named(genotype.space).literature), genotype, machine, measure)


def inspect_run(run: RunDir, size: Size, machine: Machine, measure: bool) -> Inspection:
    """The network that a run has chosen."""
    chosen = ChosenNetwork.read(run.genotype, f"discretize{run.flag}")
    return _inspect(size.applied_to(chosen.skeleton), chosen.genotype, machine, measure)


def _inspect(skeleton: Skeleton, genotype: Genotype, machine: Machine, measure: bool) -> Inspection:
    plan_of(skeleton)
    device = open_device(machine.device, machine.threads)
    predictor = _find_predictor(skeleton, machine, device.fingerprint)
    if not measure:
        return inspect_genotype(skeleton, genotype, predictor)
    with progress_bar() as bar:
        task = bar.add_task("timing", total=100, note="")
        return inspect_genotype(
            skeleton, genotype, predictor, device, progress=lambda share: bar.update(task, completed=round(100 * share))
        )


def _find_predictor(skeleton: Skeleton, machine: Machine, here: Fingerprint) -> Predictor | None:
    """A table that was named must do; the machine's own is used if it knows the skeleton."""
    if machine.table is None and not (machine.tables / table_name(here, skeleton.space)).exists():
        return None
    table = find_table(machine.tables, here, skeleton.space, machine.table, machine.allow_mismatch)
    try:
        return Predictor(table, skeleton)
    except UserError as error:
        if machine.table is not None:
            raise
        say(f"no prediction: {error}")
        return None
