import pytest
import torch
from timm.layers.norm_act import BatchNormAct2d
from torch import nn

from pipeline.space.folding import ScaleShift, fold_batch_norms
from pipeline.space.genotype import genotype_from_record
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton
from tests.conftest import DARTS_V2_RECORD
from tests.deploy.conftest import shake

NASBENCH_RECORD = {
    "space": "nasbench201",
    "cell": "|nor_conv_3x3~0|+|avg_pool_3x3~0|nor_conv_1x1~1|+|skip_connect~0|none~1|nor_conv_3x3~2|",
}


@pytest.mark.parametrize("record", [DARTS_V2_RECORD, NASBENCH_RECORD], ids=["darts", "nasbench201"])
@pytest.mark.parametrize(("affine", "pool_bn"), [(True, False), (False, True)])
def test_folding_changes_nothing_but_the_batch_norms(record, affine, pool_bn):
    network = Network(Skeleton(record["space"], 3, 4, 16, 5, 2), genotype_from_record(record), affine, pool_bn)
    shake(network).eval().double()
    folded = fold_batch_norms(network)
    images = torch.rand(3, 2, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(folded(images), network(images), rtol=0, atol=1e-11)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in folded.modules())
    assert any(isinstance(part, nn.BatchNorm2d) for part in network.modules())


def test_only_a_batch_norm_without_a_convolution_before_it_stays_as_scale_and_shift():
    darts = fold_batch_norms(Network(Skeleton("darts", 3, 4, 16, 5), genotype_from_record(DARTS_V2_RECORD)))
    nasbench = fold_batch_norms(Network(Skeleton("nasbench201", 3, 4, 16, 5), genotype_from_record(NASBENCH_RECORD)))
    left = [[name for name, part in n.named_modules() if isinstance(part, ScaleShift)] for n in (darts, nasbench)]
    assert left == [[], ["head.0"]]


def test_convolution_with_a_bias():
    sequence = shake(nn.Sequential(nn.Conv2d(2, 3, 3, bias=True), nn.BatchNorm2d(3))).eval().double()
    x = torch.rand(2, 2, 5, 5, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(fold_batch_norms(sequence)(x), sequence(x), rtol=0, atol=1e-13)


def test_a_batch_norm_with_an_activation_inside_is_left_as_it_is():
    """As timm's networks have them: to replace one by a scale and a shift would lose its activation."""
    sequence = shake(nn.Sequential(nn.Conv2d(2, 3, 3), BatchNormAct2d(3))).eval().double()
    x = torch.rand(2, 2, 5, 5, dtype=torch.float64)
    with torch.no_grad():
        assert torch.equal(fold_batch_norms(sequence)(x), sequence(x))
