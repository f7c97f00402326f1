"""Which part of a network the runtime spends its time in, by onnxruntime's profiler."""

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pipeline.artifacts.network import genotype_hash
from pipeline.artifacts.part_times import PartTimes
from pipeline.latency.models import make_network
from pipeline.latency.onnx_device import OnnxDevice
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton

CALLS = 60
_WARM_CALLS = 10
_US_PER_MS = 1000.0
# torch's exporter names every node by the modules it is in
_SCOPE = re.compile(r"^/network/(?:parts\.(?P<part>\d+)(?P<within>/(?:edges|preprocess)\.\d+)?|(?P<head>head))(?=/)")
_SUFFIX = "_kernel_time"


def time_parts(device: OnnxDevice, skeleton: Skeleton, genotype: Genotype) -> PartTimes:
    """The network with random weights, run by the profiler as the device runs it."""
    nodes_ms = _time_nodes(device, make_network(device, skeleton, genotype))
    return PartTimes(
        genotype_sha256=genotype_hash(genotype),
        skeleton=skeleton,
        device=device.fingerprint,
        calls=CALLS,
        parts_ms=sum_by_part(nodes_ms),
    )


def part_of(node: str) -> str:
    """The part of the network that a node of its graph belongs to; "" for nodes that the runtime put in by itself.

    What is fused has the name of its last node, and counts there.
    """
    found = _SCOPE.match(node)
    if found is None:
        return ""
    return found["head"] or f"{found['part']}{found['within'] or ''}"


def sum_by_part(nodes_ms: Mapping[str, float]) -> dict[str, float]:
    """The times of all nodes, by part."""
    parts: dict[str, float] = defaultdict(float)
    for node, ms in nodes_ms.items():
        parts[part_of(node)] += ms
    return dict(sorted(parts.items()))


def _time_nodes(device: OnnxDevice, model: bytes) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        session, feed = device.open(model, Path(folder) / "profile")
        for _ in range(_WARM_CALLS + CALLS):
            session.run(None, feed)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    readings: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith(_SUFFIX):
            readings[event["name"].removesuffix(_SUFFIX)].append(event["dur"] / _US_PER_MS)
    return {node: _typical(durations) for node, durations in readings.items()}


def _typical(durations_ms: Sequence[float]) -> float:
    """The mean of the faster half: calls that other work disturbed are left out, and whole microseconds averaged."""
    ordered = np.sort(np.array(durations_ms))
    return float(ordered[: max(1, len(ordered) // 2)].mean())
