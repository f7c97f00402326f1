import numpy as np
import pytest

from pipeline.artifacts.latency_table import NetworkTime, SiteTime
from pipeline.errors import UserError
from pipeline.latency.calibration import calibrate, cross_validate, fit, group_of, predict, sum_sites
from pipeline.latency.executed import executed_sites
from pipeline.space.costs import mac_costs
from pipeline.space.genotype import Genotype
from pipeline.space.plan import all_sites, network_sites
from pipeline.space.sampling import spread_genotypes
from pipeline.space.skeleton import Skeleton

SKELETON = Skeleton("darts", cells=4, channels=4, resolution=8, classes=3, in_channels=1)
GENERATOR = np.random.default_rng(7)
SITES = {
    site.key: SiteTime(p50_ms=float(t), spread_ms=0.0, count=9)
    for site, t in zip(all_sites(SKELETON), GENERATOR.uniform(0.01, 0.1, 99), strict=False)
}
GENOTYPES = spread_genotypes("darts", mac_costs(SKELETON), 40, seed=3)


def site_sum(genotype: Genotype, factors: dict[str, float] | None = None) -> float:
    return sum(
        SITES[site.key].p50_ms * (factors or {}).get(group_of(site), 1.0) for site in network_sites(SKELETON, genotype)
    )


def networks(times: list[float]) -> list[NetworkTime]:
    return [
        NetworkTime(genotype=genotype.record(), p50_ms=t, p95_ms=1.1 * t, p99_ms=1.3 * t)
        for genotype, t in zip(GENOTYPES, times, strict=False)
    ]


def test_recovers_kappa_and_b_exactly() -> None:
    measured = networks([1.7 * site_sum(genotype) + 0.4 for genotype in GENOTYPES])
    calibration = calibrate(SKELETON, SITES, measured)
    assert calibration.kappa == pytest.approx(1.7, rel=1e-6)
    assert calibration.b_ms == pytest.approx(0.4, rel=1e-6)
    assert calibration.interval < 1e-6
    assert calibration.p95_ratio == pytest.approx(1.1)
    assert calibration.p99_ratio == pytest.approx(1.3)


def test_the_plain_fit_is_least_squares_of_relative_errors() -> None:
    """With residuals of equal size all networks count alike: the closed-form solution."""
    s = GENERATOR.uniform(1, 3, 30)
    y = (1.3 * s + 0.5) * (1 + 0.01 * np.tile([1.0, -1.0], 15))
    rows = np.column_stack([s / y, 1 / y])
    kappa, b_ms = np.linalg.solve(rows.T @ rows, rows.T @ np.ones(30))
    found = fit(s[:, None], y)
    assert found.kappas[0] == pytest.approx(kappa, rel=1e-3)
    assert found.b_ms == pytest.approx(b_ms, rel=1e-2)


def test_an_outlier_network_hardly_moves_the_fit() -> None:
    times = [1.7 * site_sum(genotype) + 0.4 for genotype in GENOTYPES]
    times = [t * (1 + 0.005 * (-1) ** i) for i, t in enumerate(times)]
    clean = fit(sum_sites(SKELETON, SITES, networks(times)).total[:, None], np.array(times))
    times[3] *= 0.5
    spoiled = fit(sum_sites(SKELETON, SITES, networks(times)).total[:, None], np.array(times))
    assert spoiled.kappas[0] == pytest.approx(clean.kappas[0], rel=0.01)
    assert spoiled.b_ms == pytest.approx(clean.b_ms, abs=0.05)


def test_corrections_are_kept_when_they_pay() -> None:
    factors = {"sep_conv_5x5/s1": 2.0, "max_pool_3x3/s1": 0.4}
    times = [site_sum(genotype, factors) + 0.4 for genotype in GENOTYPES]
    calibration = calibrate(SKELETON, SITES, networks(times))
    assert calibration.corrections["sep_conv_5x5/s1"] > 1.3 * calibration.corrections["sep_conv_3x3/s1"]
    predicted = predict(calibration, sum_sites(SKELETON, SITES, networks(times)))
    plain = cross_validate(sum_sites(SKELETON, SITES, networks(times)).total[:, None], np.array(times))
    assert np.abs(predicted / times - 1).mean() < 0.3 * np.abs(plain).mean()


def test_corrections_are_dropped_when_they_do_not_pay() -> None:
    noise = np.random.default_rng(0).standard_normal(40)
    times = [(site_sum(genotype) + 0.4) * (1 + 0.02 * e) for genotype, e in zip(GENOTYPES, noise, strict=True)]
    assert calibrate(SKELETON, SITES, networks(times)).corrections == {}


def test_a_runtime_that_merges_equal_operations_is_recognized() -> None:
    """Networks timed as they are executed, then as if every operation ran: either way the better sums are taken."""
    for merged in (True, False):
        times = [
            1.7 * sum(SITES[site.key].p50_ms for site in executed_sites(SKELETON, genotype, merged)) + 0.4
            for genotype in GENOTYPES
        ]
        calibration = calibrate(SKELETON, SITES, networks(times))
        assert calibration.merged is merged
        assert calibration.kappa == pytest.approx(1.7, rel=1e-6)


def test_few_networks_get_no_corrections() -> None:
    factors = {"sep_conv_5x5/s1": 3.0}
    times = [site_sum(genotype, factors) + 0.4 for genotype in GENOTYPES[:8]]
    assert calibrate(SKELETON, SITES, networks(times)).corrections == {}


def test_the_interval_holds_what_it_promises() -> None:
    """95 % of new networks lie inside, on average over many draws of 3 % noise."""
    generator = np.random.default_rng(1)
    truth = np.array([site_sum(genotype) + 0.4 for genotype in GENOTYPES])
    inside = []
    for _ in range(10):
        times = truth * (1 + 0.03 * generator.standard_normal(40))
        calibration = calibrate(SKELETON, SITES, networks(times.tolist())[::2])
        predicted = predict(calibration, sum_sites(SKELETON, SITES, networks(times.tolist())))[1::2]
        inside += list(np.abs(times[1::2] / predicted - 1) <= calibration.interval)
    assert 0.92 <= np.mean(inside) <= 0.995


def test_seconds_for_milliseconds_are_noticed() -> None:
    times = [(1.7 * site_sum(genotype) + 0.4) / 1000 for genotype in GENOTYPES]
    with pytest.raises(UserError, match="not all in milliseconds"):
        calibrate(SKELETON, SITES, networks(times))


def test_missing_sites_are_named() -> None:
    key = next(site.key for site in all_sites(SKELETON) if site.operation == "head")
    with pytest.raises(UserError, match=key):
        calibrate(SKELETON, {k: v for k, v in SITES.items() if k != key}, networks([1.0] * 40))


def test_sums_are_those_of_the_sites() -> None:
    sums = sum_sites(SKELETON, SITES, networks([1.0] * 40))
    np.testing.assert_allclose(sums.total, [site_sum(genotype) for genotype in GENOTYPES], rtol=1e-12)
    np.testing.assert_allclose(sums.by_group.sum(1), sums.total, rtol=1e-12)
