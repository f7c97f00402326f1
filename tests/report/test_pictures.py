from pathlib import Path

import matplotlib.image
import pytest

from pipeline.report.pictures.latency import draw_costs, draw_predictions
from pipeline.space.skeleton import Skeleton
from tests.latency.fakes import FINGERPRINT
from tests.latency.made import SKELETON, made_table


@pytest.mark.parametrize("skeleton", [SKELETON, Skeleton("nasbench201", 3, 4, 8, 3), Skeleton("mobile", 22, 8, 16, 3)])
def test_pictures_are_drawn_for_every_space(tmp_path: Path, skeleton: Skeleton) -> None:
    column = made_table(skeleton, noise=0.03).column("fp32")
    draw_costs(column, skeleton, FINGERPRINT, tmp_path / "costs.png")
    draw_predictions(column, column.skeletons[0], tmp_path / "predictions.png")
    for name in ("costs.png", "predictions.png"):
        pixels = matplotlib.image.imread(tmp_path / name)
        assert pixels.shape[0] > 300 and pixels[..., :3].std() > 0.05
    assert len(list(tmp_path.iterdir())) == 2
