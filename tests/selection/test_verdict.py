"""What a person is told of evidence that chance may explain."""

import numpy as np
import pytest

from pipeline.selection.evidence import Evidence
from pipeline.selection.pool import Pool
from pipeline.selection.sources import Measure, Sources, measure_size
from pipeline.selection.standing import Standing
from pipeline.selection.verdict import Exploration, conclude, describe_doubt
from pipeline.space.choices import choices_of
from pipeline.space.genotype import Genotype
from pipeline.space.plan import count_macs
from pipeline.space.sampling import random_genotype
from tests.selection.fakes import DARTS, SMALL


def test_evidence_that_chance_may_explain_is_doubted() -> None:
    assert not describe_doubt(Standing("all together", 0.14, 0.1, 0.6, None))
    said = describe_doubt(Standing("all together", 0.14, -0.1, 0.6, None))
    assert "τ +0.14 (95 % -0.10 … +0.60), which chance may explain" in said


@pytest.mark.parametrize("trusts_search", [True, False])
def test_networks_are_scored_by_all_that_predicts_them(trusts_search: bool) -> None:
    """Sources without weight are not asked, but size is where larger is better whatever it earned."""
    generator = np.random.default_rng(0)
    pool = Pool(DARTS, tuple(random_genotype("darts", generator) for _ in range(16)))

    def noise(genotype: Genotype) -> list[float]:
        return [float(sum(map(ord, str(genotype.record()))) % 97), 0.0]

    sources = Sources([Measure(("alpha", "naswot"), noise), measure_size(SMALL)], trusts_search=trusts_search)
    looks = sources.look(pool.networks)
    losses = [count_macs(SMALL, one) / 1e6 for one in pool.networks]  # small ones start early
    evidence = Evidence(sources.names, looks, losses, looks, trusts_search)
    verdict = conclude(evidence, sources, pool, Exploration(4, 0))
    assert verdict.evolution is not None
    found = [verdict.evolution.score(choices_of(DARTS, one)) for one in pool.networks]
    assert found == pytest.approx(evidence.proven().predict(looks).tolist())
