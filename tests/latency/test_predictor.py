from dataclasses import replace

import numpy as np
import pytest

from pipeline.artifacts.latency_table import LatencyTable
from pipeline.budget.feasibility import check_feasible
from pipeline.budget.targets import Demands, make_targets
from pipeline.errors import PromiseBroken, UserError
from pipeline.latency.predictor import Predictor
from pipeline.space.extremes import cheapest_genotype
from pipeline.space.genotype import genotype_from_record
from pipeline.space.plan import network_sites
from pipeline.space.sampling import random_genotype
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from tests.conftest import pairs
from tests.latency.made import B_MS, KAPPA, SKELETON, made_table

POOLS = ("max_pool_3x3", "avg_pool_3x3")
NASBENCH = Skeleton("nasbench201", cells=5, channels=4, resolution=8, classes=3)


@pytest.mark.parametrize("skeleton", [SKELETON, NASBENCH])
def test_costs_and_predictions_are_the_formula(skeleton: Skeleton) -> None:
    table = made_table(skeleton)
    predictor = Predictor(table, skeleton)
    sites = table.column("fp32").sites
    generator = np.random.default_rng(0)
    for _ in range(10):
        genotype = random_genotype(skeleton.space, generator)
        expected = KAPPA * sum(sites[site.key].p50_ms for site in network_sites(skeleton, genotype)) + B_MS
        assert predictor.predict(genotype).ms == pytest.approx(expected, rel=1e-6)
        assert predictor.costs().of(genotype) == pytest.approx(predictor.predict(genotype).ms, rel=1e-12)


def test_corrections_are_in_costs_and_predictions_alike() -> None:
    table = made_table()
    column = table.column("fp32")
    entry = column.skeletons[0]
    calibration = entry.calibration.model_copy(update={"corrections": {"sep_conv_3x3/s1": 4.0, "skip_connect/s2": 0.5}})
    table = with_entry(table, entry.model_copy(update={"calibration": calibration}))
    predictor = Predictor(table, SKELETON)
    genotype = random_genotype("darts", np.random.default_rng(3))
    factors = {("sep_conv_3x3", 1): 4.0, ("skip_connect", 2): 0.5}
    expected = B_MS + sum(
        factors.get((site.operation, site.stride), calibration.kappa) * column.sites[site.key].p50_ms
        for site in network_sites(SKELETON, genotype)
    )
    assert predictor.predict(genotype).ms == pytest.approx(expected, rel=1e-6)
    assert predictor.costs().of(genotype) == pytest.approx(predictor.predict(genotype).ms, rel=1e-12)


def test_linear_costs_are_never_below_what_is_executed() -> None:
    """A runtime that merges equal pools pays them once; the sum over choices counts each."""
    table = made_table()
    column = table.column("fp32")
    entry = column.skeletons[0]
    merging = entry.model_copy(update={"calibration": entry.calibration.model_copy(update={"merged": True})})
    predictor = Predictor(with_entry(table, merging), SKELETON)
    twice = pairs("max_pool_3x3 0, sep_conv_3x3 1, " * 3 + "max_pool_3x3 0, sep_conv_3x3 1")
    genotype = genotype_from_record({"space": "darts", "normal": twice, "reduce": twice})
    pools = [site for site in network_sites(SKELETON, genotype) if site.operation == "max_pool_3x3"]
    saved = predictor.calibration.kappa * sum(column.sites[site.key].p50_ms for site in pools) * 3 / 4
    assert predictor.costs().of(genotype) - predictor.predict(genotype).ms == pytest.approx(saved, rel=1e-9)


def merging_predictor(skeleton: Skeleton, pool_share: float = 1.0) -> Predictor:
    """A runtime that merges equal operations without weights; pools take a share of what the made table says."""
    table = made_table(skeleton)
    column = table.column("fp32")
    sites = {
        key: time.model_copy(update={"p50_ms": pool_share * time.p50_ms}) if "_pool_" in key else time
        for key, time in column.sites.items()
    }
    entry = column.skeletons[0]
    merging = entry.model_copy(update={"calibration": entry.calibration.model_copy(update={"merged": True})})
    changed = column.model_copy(update={"sites": sites, "skeletons": [merging]})
    return Predictor(table.model_copy(update={"precisions": {"fp32": changed}}), skeleton)


@pytest.mark.parametrize("skeleton", [SKELETON, NASBENCH])
@pytest.mark.parametrize("concentration", [0.05, 0.3, 1.0])
def test_least_costs_are_never_above_what_is_executed(skeleton: Skeleton, concentration: float) -> None:
    predictor, generator = merging_predictor(skeleton), np.random.default_rng(0)
    costs, least = predictor.costs(), predictor.least_costs()
    for _ in range(50):
        genotype = random_genotype(skeleton.space, generator, concentration=concentration)
        assert least.of(genotype) <= predictor.predict(genotype).ms + 1e-12 <= costs.of(genotype) + 2e-12


def test_operations_with_weights_are_part_of_the_least() -> None:
    predictor = merging_predictor(SKELETON)
    convolutions = 4 * pairs("sep_conv_3x3 0, dil_conv_5x5 1")
    genotype = genotype_from_record({"space": "darts", "normal": convolutions, "reduce": convolutions})
    assert predictor.least_costs().of(genotype) == pytest.approx(predictor.predict(genotype).ms, rel=1e-12)


def test_where_nothing_is_merged_the_least_is_the_cost() -> None:
    predictor, genotype = Predictor(made_table(), SKELETON), random_genotype("darts", np.random.default_rng(0))
    assert predictor.least_costs().of(genotype) == predictor.costs().of(genotype)


def test_the_least_is_that_of_a_network_below_the_one_that_seems_cheapest() -> None:
    """Every node a copy of the first, of the cheapest pools: linear costs count them four times, the runtime once."""
    predictor, space = merging_predictor(SKELETON, pool_share=0.01), space_named("darts")
    costs, least = predictor.costs(), predictor.least_costs()
    pools = [pairs(f"{one} 0, {other} 1") for one in POOLS for other in POOLS]
    copies = [{"space": "darts", "normal": 4 * normal, "reduce": 4 * reduce} for normal in pools for reduce in pools]
    found_ms = min(predictor.predict(genotype_from_record(record)).ms for record in copies)
    assert least.of(cheapest_genotype(space, least)) == pytest.approx(found_ms, rel=1e-12)
    assert found_ms < costs.of(cheapest_genotype(space, costs))


def test_a_budget_between_the_least_and_the_linear_cost_is_not_refused() -> None:
    predictor, space = merging_predictor(SKELETON, pool_share=0.3), space_named("darts")
    costs, least = predictor.costs(), predictor.least_costs()
    linear_ms, least_ms = (one.of(cheapest_genotype(space, one)) for one in (costs, least))
    targets = make_targets([SKELETON], lambda _: predictor)
    check_feasible(space, targets, Demands((linear_ms + least_ms) / 2, 50))
    with pytest.raises(PromiseBroken, match=rf"no network needs less than {least_ms:.3g}\d* ms \(predicted\)"):
        check_feasible(space, targets, Demands(0.99 * least_ms, 50))


def with_entry(table: LatencyTable, entry: object) -> LatencyTable:
    column = table.column("fp32").model_copy(update={"skeletons": [entry]})
    return table.model_copy(update={"precisions": {"fp32": column}})


def test_the_interval_surrounds_the_prediction() -> None:
    predictor = Predictor(made_table(noise=0.02), SKELETON)
    predicted = predictor.predict(random_genotype("darts", np.random.default_rng(0)))
    half = predictor.calibration.interval
    assert 0.02 < half < 0.1
    assert predicted.low_ms == pytest.approx(predicted.ms * (1 - half))
    assert predicted.high_ms == pytest.approx(predicted.ms * (1 + half))


@pytest.mark.parametrize(("mean_error", "half_width"), [(0.08, 0.08 * 2.4565), (0.001, None), (0.9, 1.0)])
def test_networks_outside_the_fit_may_widen_the_interval(mean_error: float, half_width: float | None) -> None:
    """1.96 standard deviations of normal errors are 2.4565 of their mean sizes; nothing takes less than no time."""
    table = made_table(noise=0.02)
    (entry,) = table.column("fp32").skeletons
    validation = entry.validation.model_copy(update={"mape": mean_error}) if entry.validation else None
    predictor = Predictor(with_entry(table, entry.model_copy(update={"validation": validation})), SKELETON)
    predicted = predictor.predict(random_genotype("darts", np.random.default_rng(0)))
    expected = predictor.calibration.interval if half_width is None else half_width
    assert predicted.high_ms == pytest.approx(predicted.ms * (1 + expected), rel=1e-4)
    assert predicted.low_ms == pytest.approx(predicted.ms * (1 - expected), rel=1e-4, abs=1e-12)


def test_a_percentile_divides_the_budget_by_its_ratio() -> None:
    predictor = Predictor(made_table(), SKELETON)
    assert predictor.limit_ms(12.0, 50) == 12.0
    assert predictor.limit_ms(12.0, 95) == pytest.approx(10.0)
    assert predictor.limit_ms(12.0, 99) == pytest.approx(7.5)
    with pytest.raises(UserError, match="percentile"):
        predictor.limit_ms(12.0, 90)


def test_missing_sites_are_named_never_guessed() -> None:
    table = made_table()
    sites = dict(table.column("fp32").sites)
    gone = next(key for key in sites if key.startswith("sep_conv_5x5"))
    del sites[gone]
    column = table.column("fp32").model_copy(update={"sites": sites})
    with pytest.raises(UserError, match=f"lacks {gone}.*run `pipeline profile`"):
        Predictor(table.model_copy(update={"precisions": {"fp32": column}}), SKELETON)


def test_another_width_needs_a_profile_of_its_own() -> None:
    with pytest.raises(UserError, match="run `pipeline profile`"):
        Predictor(made_table(), replace(SKELETON, channels=8))


def test_another_depth_has_the_sites_but_no_calibration() -> None:
    table = made_table(replace(SKELETON, cells=8))
    with pytest.raises(UserError, match="not calibrated for 9 cells"):
        Predictor(table, replace(SKELETON, cells=9))


def test_another_space_is_refused() -> None:
    with pytest.raises(UserError, match="space"):
        Predictor(made_table(), NASBENCH)
