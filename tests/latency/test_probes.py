import numpy as np
import onnxruntime
import pytest
import torch

from pipeline.latency.measure import Effort, measure_models
from pipeline.latency.models import make_model, onnx_bytes
from pipeline.latency.probes import SiteCopies, example_input, make_probes, site_times, span_read
from pipeline.space import operations
from pipeline.space.layers import Normalization
from pipeline.space.plan import all_sites
from pipeline.space.sites import Site
from pipeline.space.skeleton import Skeleton
from tests.latency.fakes import PARAMETER_MS, FakeDevice

SKELETON = Skeleton("darts", cells=3, channels=4, resolution=8, classes=3, in_channels=1)


def test_differences_leave_the_site_and_nothing_else() -> None:
    """On a clock that charges per parameter and per call, a site's time is its parameters' and no overhead's."""
    device = FakeDevice()
    sites = all_sites(SKELETON)
    models = {
        name: make_model(device, module, [example_input(span, 1)])
        for name, (module, span) in make_probes(sites, 4).items()
    }
    times = site_times(sites, 4, measure_models(device, models, 1.0, Effort(rounds=1, calls=3)).timings)
    assert set(times) == {site.key for site in sites}
    for site in sites:
        expected = PARAMETER_MS * operations.params(site, Normalization())
        assert times[site.key].p50_ms == pytest.approx(expected, abs=1e-9), site.key


@pytest.mark.parametrize(
    ("site", "kind"),
    [
        (Site("max_pool_3x3", 16, 16, 2, 8), "MaxPool"),
        (Site("avg_pool_3x3", 16, 16, 1, 8), "AveragePool"),
        (Site("skip_connect", 16, 16, 2, 8), "Slice"),
        (Site("concat", 16, 64, 1, 8), "Concat"),
    ],
)
def test_the_runtime_cannot_merge_copies(site: Site, kind: str, tmp_path: object) -> None:
    """All five copies survive onnxruntime's optimizations, also those without weights."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = f"{tmp_path}/optimized.onnx"
    options.log_severity_level = 3
    model = onnx_bytes(SiteCopies(site, 5), [example_input(span_read(site), 1)])
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    import onnx

    graph = onnx.load(options.optimized_model_filepath).graph
    assert sum(node.op_type == kind for node in graph.node) >= 5


def test_copies_compute_the_sum_of_the_sites() -> None:
    site = Site("sep_conv_3x3", 4, 4, 1, 8)
    copies = SiteCopies(site, 3).eval()
    x = torch.rand(1, 4, 8, 8)
    expected, carried = 0.0, x
    with torch.no_grad():
        for producer, module in zip(copies.producers, copies.sites, strict=True):
            carried = producer(carried)
            expected = expected + module(carried)
        np.testing.assert_allclose(copies(x), expected, rtol=1e-6)
