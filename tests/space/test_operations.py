"""Every operation at every kind of site: shape, price, second derivatives, export."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from pipeline.onnx_file import write_quick
from pipeline.space import operations
from pipeline.space.layers import Normalization
from pipeline.space.plan import all_sites
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton
from tests.space.test_counts import fvcore_macs

SITES = sorted(
    {
        site
        for skeleton in (
            Skeleton("darts", cells=3, channels=4, resolution=8, classes=3),
            Skeleton("darts", cells=3, channels=4, resolution=64, classes=3, stem="imagenet"),
            Skeleton("nasbench201", cells=3, channels=4, resolution=8, classes=3),
            Skeleton("nasbench-macro", cells=8, channels=4, resolution=16, classes=3),
        )
        for site in all_sites(skeleton)
        if site.operation != "concat"
    }
    # every inverted bottleneck with and without a shortcut; the whole space would repeat them at many widths
    | {site for site in all_sites(Skeleton("mobile", 22, 8, 16, 3)) if site.resolution == 8}
)
CHOICES = [site for site in SITES if site.resolution == 8]


def run(module: torch.nn.Module, site: Site, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, site.channels_in, site.resolution, site.resolution, generator=generator, dtype=dtype)
    output: torch.Tensor = module(x)
    return output


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.key)
def test_shape_and_prices(site: Site) -> None:
    for norm in (Normalization(), Normalization(affine=False, pool_bn=True), Normalization(affine=True, pool_bn=True)):
        module: Any = operations.build(site, norm)
        assert operations.params(site, norm) == sum(p.numel() for p in module.parameters())
    output = run(module, site)
    side = [site.resolution_out] * 2 if not site.operation.startswith("head") else []
    assert list(output.shape) == [2, site.channels_out, *side]
    assert operations.macs(site) == fvcore_macs(module, (1, site.channels_in, site.resolution, site.resolution))


@pytest.mark.parametrize("site", CHOICES, ids=lambda site: site.key)
def test_twice_differentiable(site: Site) -> None:
    """Double backward equals a central difference of the gradient, in float64 with kinks smoothed away by chance."""
    torch.manual_seed(1)
    module: Any = operations.build(site, Normalization()).double()
    x = torch.randn(2, site.channels_in, 8, 8, dtype=torch.float64, requires_grad=True)
    direction = torch.randn_like(x)

    def gradient(at: torch.Tensor, graph: bool = False) -> torch.Tensor:
        return torch.autograd.grad(module(at).pow(2).sum(), at, create_graph=graph)[0]

    product = gradient(x, graph=True)
    exact = torch.autograd.grad((product * direction).sum(), x, allow_unused=True)[0]
    exact = torch.zeros_like(x) if exact is None else exact
    step = 1e-6
    plus, minus = (gradient((x + sign * step * direction).detach().requires_grad_()) for sign in (1, -1))
    torch.testing.assert_close(exact, (plus - minus) / (2 * step), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.key)
def test_exports_with_the_same_numbers(site: Site, tmp_path: Path) -> None:
    module: Any = operations.build(site, Normalization()).eval()
    x = torch.randn(1, site.channels_in, site.resolution, site.resolution)
    write_quick(module, [x], tmp_path / "site.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "site.onnx", providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {"input": x.numpy()})
    np.testing.assert_allclose(output, module(x).detach().numpy(), atol=1e-5)


def test_average_pooling_does_not_count_the_padding() -> None:
    pool = operations.build(Site("avg_pool_3x3", 1, 1, 1, 4), Normalization())
    assert torch.equal(pool(torch.ones(1, 1, 4, 4)), torch.ones(1, 1, 4, 4))


def test_dilated_kernel_reaches_four_pixels() -> None:
    """A 5×5 kernel dilated by two sees 9×9 pixels: the padding must be 4, and stride 1 must keep the size."""
    module: Any = operations.build(Site("dil_conv_5x5", 1, 1, 1, 12), Normalization())
    depthwise = module[1]
    assert (depthwise.padding, depthwise.dilation, depthwise.kernel_size) == ((4, 4), (2, 2), (5, 5))


def test_the_second_half_of_a_factorized_reduction_is_shifted() -> None:
    reduction: Any = operations.build(Site("skip_connect", 2, 2, 2, 4), Normalization())
    module = reduction[1]
    for half in (module.even, module.odd):
        torch.nn.init.ones_(half.weight)
    x = torch.arange(16.0).reshape(1, 1, 4, 4).repeat(1, 2, 1, 1)
    even, odd = module(x)[0]
    assert even.tolist() == [[0, 4], [16, 20]]
    assert odd.tolist() == [[10, 14], [26, 30]]
