"""The deployed network taken apart: its parts in order, and what each takes of the milliseconds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

from pipeline.artifacts.network import ChosenNetwork, genotype_hash
from pipeline.artifacts.part_times import PartTimes
from pipeline.latency.predictor import Predictor
from pipeline.space.cells import Cell, CellKind, Fixed
from pipeline.space.plan import plan_of
from pipeline.space.sites import Site
from pipeline.space.spaces import space_named


class Times(NamedTuple):
    """Milliseconds of a part by the table and by the runtime's profiler; None where that is not known."""

    predicted_ms: float | None
    measured_ms: float | None

    def __add__(self, other: Self) -> "Times":  # type: ignore[override]
        return Times(_plus(self.predicted_ms, other.predicted_ms), _plus(self.measured_ms, other.measured_ms))


class Block(NamedTuple):
    """A part of the chain: the stem, a cell or layer, the head. `operation` is the layer's, or the kind of cell."""

    operation: str
    is_choice: bool
    channels: int
    resolution: int
    times: Times


class Lane(NamedTuple):
    """A kept edge of a kind of cell, and what it takes in all cells of that kind together."""

    source: int
    node: int
    operation: str
    times: Times


class KindView(NamedTuple):
    """A kind of cell, how often the network has it, and its kept edges."""

    kind: CellKind
    cells: int
    lanes: tuple[Lane, ...]


@dataclass(frozen=True)
class Anatomy:
    """All of a network. `rest` is what belongs to no part: calls, and the runtime's own changes of layout."""

    blocks: tuple[Block, ...]
    kinds: tuple[KindView, ...]
    rest: Times
    total: Times

    @property
    def is_layerwise(self) -> bool:
        """Whether every kind is a single layer."""
        return all(len(view.kind.edges) == 1 for view in self.kinds)


class _Clock:
    """Looks up what a site takes, by the table and by the profiler."""

    def __init__(self, predictor: Predictor | None, measured: PartTimes | None, latency_ms: float | None) -> None:
        self._predictor, self._parts = predictor, {} if measured is None else measured.parts_ms
        whole = sum(self._parts.values())
        # the profiler slows every node: its times are taken as shares of the latency
        self._scale = 1.0 if latency_ms is None or not whole else latency_ms / whole
        self.knows_parts = bool(self._parts)

    def measured_ms(self, key: str) -> float | None:
        return self._scale * self._parts.get(key, 0.0) if self.knows_parts else None

    def time(self, site: Site | None, key: str) -> Times:
        predicted = None if self._predictor is None else 0.0 if site is None else self._predictor.price_ms(site)
        return Times(predicted, self.measured_ms(key))


def dissect(
    network: ChosenNetwork, predictor: Predictor | None, measured: PartTimes | None, latency_ms: float | None
) -> Anatomy:
    """The network's parts; times of a profiler that saw another network are not used."""
    if measured is not None and (measured.genotype_sha256, measured.skeleton) != (
        genotype_hash(network.genotype),
        network.skeleton,
    ):
        measured = None
    clock, plan, space = (
        _Clock(predictor, measured, latency_ms),
        plan_of(network.skeleton),
        space_named(network.skeleton.space),
    )
    lanes = {kind.name: list[Lane]() for kind in space.kinds}
    blocks: list[Block] = []
    for number, part in enumerate(plan.chain):
        if isinstance(part, Fixed):
            blocks.append(_fixed(part.site, clock.time(part.site, str(number))))
            continue
        kind = space.kind(part.kind)
        own = list(_edges(part, kind, network, clock, number))
        lanes[kind.name] += own
        around = clock.time(part.output_site(kind), str(number))
        before = (clock.time(site, f"{number}/preprocess.{i}") for i, site in enumerate(part.preprocess))
        label = own[0].operation if len(kind.edges) == 1 else kind.name
        times = _sum([around, *before, *(lane.times for lane in own)])
        blocks.append(Block(label, True, part.channels, part.resolution // part.stride, times))
    blocks.append(_fixed(plan.head, clock.time(plan.head, "head")))
    b_ms = None if predictor is None else predictor.calibration.b_ms
    rest = Times(b_ms, clock.measured_ms(""))
    views = (
        KindView(kind, sum(c.kind == kind.name for c in plan.cells), _merge(lanes[kind.name])) for kind in space.kinds
    )
    return Anatomy(tuple(blocks), tuple(views), rest, _sum([rest, *(block.times for block in blocks)]))


def _fixed(site: Site, times: Times) -> Block:
    return Block(site.operation, False, site.channels_out, site.resolution_out, times)


def _edges(cell: Cell, kind: CellKind, network: ChosenNetwork, clock: _Clock, number: int) -> Iterator[Lane]:
    for kept in network.genotype.kept(kind):
        edge = kind.edges[kept.edge]
        site = cell.site(kind, edge, kept.operation)
        yield Lane(edge.source, edge.node, kept.operation, clock.time(site, f"{number}/edges.{kept.edge}"))


def _merge(lanes: Iterable[Lane]) -> tuple[Lane, ...]:
    """The same edge of several cells as one."""
    merged: dict[tuple[int, int], Lane] = {}
    for lane in lanes:
        known = merged.get((lane.node, lane.source))
        merged[lane.node, lane.source] = lane if known is None else lane._replace(times=known.times + lane.times)
    return tuple(merged[key] for key in sorted(merged))


def _sum(times: Iterable[Times]) -> Times:
    total = Times(0.0, 0.0)
    for one in times:
        total = total + one
    return total


def _plus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b
