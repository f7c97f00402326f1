"""What a runtime executes, against what onnxruntime has left after its optimizations."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from pipeline.latency.executed import executed_sites
from pipeline.latency.models import make_network
from pipeline.space.genotype import Genotype, genotype_from_record
from pipeline.space.plan import network_sites
from pipeline.space.sampling import random_genotype
from pipeline.space.skeleton import Skeleton
from tests.conftest import pairs
from tests.latency.fakes import FINGERPRINT

SKELETON = Skeleton("darts", cells=3, channels=16, resolution=8, classes=3)
POOLS = {"max_pool_3x3": "MaxPool", "avg_pool_3x3": "AveragePool"}
# nodes 0 and 2 are equal, so the pools of sources 2 and 4 are equal too
REPEATED = pairs(
    "avg_pool_3x3 0, avg_pool_3x3 1, avg_pool_3x3 0, avg_pool_3x3 2, "
    "avg_pool_3x3 0, avg_pool_3x3 1, max_pool_3x3 3, avg_pool_3x3 4"
)


class OnnxMaker:
    """Only says that models are wanted as ONNX."""

    takes = "onnx"
    fingerprint = FINGERPRINT

    def load(self, model: object) -> None: ...


def pools_left(genotype: Genotype, folder: Path) -> dict[str, int]:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(folder / "optimized.onnx"), 3
    model = make_network(OnnxMaker(), SKELETON, genotype)  # type: ignore[arg-type]
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    kinds = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    return {name: kinds.count(kind) for name, kind in POOLS.items()}


def pools_counted(genotype: Genotype, merged: bool) -> dict[str, int]:
    found = [site.operation for site in executed_sites(SKELETON, genotype, merged)]
    return {name: found.count(name) for name in POOLS}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_as_many_pools_as_onnxruntime_executes(seed: int, tmp_path: Path) -> None:
    genotype = random_genotype("darts", np.random.default_rng(seed), concentration=0.3)
    assert pools_counted(genotype, merged=True) == pools_left(genotype, tmp_path)


def test_equal_nodes_are_one_node(tmp_path: Path) -> None:
    genotype = genotype_from_record({"space": "darts", "normal": REPEATED, "reduce": REPEATED})
    counted = pools_counted(genotype, merged=True)
    # per cell: the pools of sources 0, 1 and 2, and one maximum
    assert counted == {"avg_pool_3x3": 9, "max_pool_3x3": 3} == pools_left(genotype, tmp_path)
    assert pools_counted(genotype, merged=False) == {"avg_pool_3x3": 21, "max_pool_3x3": 3}


def test_operations_with_weights_are_never_merged(darts_v2: Genotype) -> None:
    convolutions = pairs("sep_conv_3x3 0, sep_conv_3x3 1, " * 3 + "sep_conv_3x3 0, sep_conv_3x3 1")
    genotype = genotype_from_record({"space": "darts", "normal": convolutions, "reduce": convolutions})
    assert executed_sites(SKELETON, genotype, merged=True) == network_sites(SKELETON, genotype)
    assert executed_sites(SKELETON, darts_v2, merged=False) == network_sites(SKELETON, darts_v2)
