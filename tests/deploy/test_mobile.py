"""The mobile setting of the literature: DARTS_V2 with 14 cells at 224 px, on the real exporter."""

import re

import pytest

from pipeline.artifacts.network import ChosenNetwork
from pipeline.artifacts.trained import Trained
from pipeline.deploy.assembly import Order, assemble
from pipeline.deploy.contract import Limits
from pipeline.errors import PromiseBroken
from pipeline.rundir import RunDir
from pipeline.space.skeleton import Skeleton
from tests.artifacts.made import made_certificate
from tests.conftest import DARTS_V2_RECORD
from tests.deploy.conftest import LIMITS, make_images, make_trained, measure_fake


def make_order(project, channels: int, limits: Limits = LIMITS) -> Order:
    run = RunDir(project, f"c{channels}")
    labels = tuple(f"class {number}" for number in range(1000))
    made = make_trained(Skeleton("darts", 14, channels, 224, 1000), DARTS_V2_RECORD, labels)
    network = ChosenNetwork(genotype=made.network.genotype, skeleton=made.network.skeleton)
    certificate = made_certificate(network, budget_ms=2.0)
    made.write(run.weights)
    network.write(run.genotype)
    certificate.write(run.certificate)
    trained = Trained.read(run.weights)
    images = make_images(trained, 8)
    return Order(run, trained, certificate, labels, images, images, 1.0, limits, True, False, 0.01, measure_fake)


@pytest.mark.slow
def test_darts_v2_has_its_published_multiply_adds_and_a_wider_one_fails_the_mobile_limit(tmp_path):
    card = assemble(make_order(tmp_path, 48))
    assert card.macs == 529_911_552
    assert card.params == 4_718_752
    assert card.input["type"] == "uint8"
    with pytest.raises(PromiseBroken) as caught:
        assemble(make_order(tmp_path, 60))
    assert re.findall(r"^  ([a-z ]+) \(", str(caught.value), re.MULTILINE) == ["mac limit"]
    assert re.search(r"macs 81\d{7}, limit 600000000", str(caught.value))
    assert not (tmp_path / "exports" / "c60").exists()
