"""A guide: read in the formats of the data, under their classes, and apart from what is trained on and tested."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.config import DataConfig
from pipeline.data import ImageData, load_data
from pipeline.data import folder as folder_module
from pipeline.data.guide import cut_guide, load_guide, make_guide
from pipeline.errors import UserError

NAMES = ("ant", "bee", "cat")


def write_photos(root: Path, names: tuple[str, ...] = NAMES, count: int = 6, seed: int = 0) -> Path:
    random = np.random.default_rng(seed)
    for name in names:
        (root / name).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(random.integers(0, 255, (8, 8), dtype=np.uint8)).save(root / name / f"{number}.png")
    return root


def photos(tmp_path: Path) -> ImageData:
    write_photos(tmp_path / "photos")
    return load_data(DataConfig(format="folder", path="photos", resolution=8), tmp_path, 0)


def test_a_folder_is_read_under_the_classes_of_the_data(tmp_path: Path) -> None:
    data = photos(tmp_path)
    path = write_photos(tmp_path / "checked", count=2, seed=1)
    guide = make_guide(load_guide(data.config, path), data)
    assert len(guide) == 6 and guide.targets.tolist() == [0, 0, 1, 1, 2, 2]
    assert guide.images.name(3) == str(path / "bee" / "1.png")


def test_an_archive_counts_the_classes_as_the_data_do(tmp_path: Path) -> None:
    data = photos(tmp_path)
    pixels = np.random.default_rng(1).integers(0, 255, (4, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "checked.npz", x_train=pixels, y_train=np.array([2, 0, 1, 1]))
    guide = make_guide(load_guide(data.config, tmp_path / "checked.npz"), data)
    assert guide.targets[guide.indices].tolist() == [2, 0, 1, 1] and guide.images.name(0) is None


@pytest.mark.parametrize(
    ("names", "match"),
    [(("ant", "bee"), "no image of the class 'cat'"), ((*NAMES, "dog"), "class 'dog' that the data lack")],
)
def test_a_guide_of_other_classes_is_refused(tmp_path: Path, names: tuple[str, ...], match: str) -> None:
    data = photos(tmp_path)
    with pytest.raises(UserError, match=match):
        make_guide(load_guide(data.config, write_photos(tmp_path / "checked", names, 2, seed=1)), data)


@pytest.mark.parametrize("fits", [True, False], ids=["by pixels", "by files"])
def test_a_guide_that_shares_an_image_is_refused(tmp_path: Path, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fits:
        monkeypatch.setattr(folder_module.FileImages.__init__, "__defaults__", (0,))
    data = photos(tmp_path)
    path = write_photos(tmp_path / "checked", count=2, seed=1)
    make_guide(load_guide(data.config, path), data)
    copied = data.pool.images.name(int(data.split.test[0]))
    assert copied is not None
    (path / "ant" / "0.png").write_bytes(Path(copied).read_bytes())
    with pytest.raises(UserError, match=r"the guide holds .*ant/0\.png, also among the images that are trained"):
        make_guide(load_guide(data.config, path), data)


def test_what_cannot_be_read_names_the_guide(tmp_path: Path) -> None:
    config = DataConfig(format="digits", resolution=8)
    with pytest.raises(UserError, match=r"there is no .*nowhere; set \[autodo\] guide"):
        load_guide(config, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    (tmp_path / "noise.npz").write_bytes(b"noise")
    for name in ("empty", "noise.npz"):
        with pytest.raises(UserError, match=r"the guide \(\[autodo\] guide\) cannot be used"):
            load_guide(config, tmp_path / name)


def test_a_share_is_cut_out_of_every_class(tmp_path: Path) -> None:
    data = load_data(DataConfig(resolution=8), tmp_path, 0)
    kept, guide = cut_guide(data, 0.2)
    assert torch.cat([kept.indices, guide.indices]).sort().values.equal(data.split.train_all)
    counts = torch.bincount(data.pool.targets[guide.indices], minlength=10)
    assert int(counts.min()) > 20 and len(guide) == pytest.approx(0.2 * len(data.split.train_all), abs=1)


def test_a_class_of_one_training_image_has_none_to_spare(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos")
    data = load_data(DataConfig(format="folder", path="photos", resolution=8), tmp_path, 0)
    ants = data.split.train_all[data.pool.targets[data.split.train_all] == 0]
    others = data.split.train[~torch.isin(data.split.train, ants)]
    one_ant = replace(data, split=data.split._replace(train=others, validation=ants[:1]))
    with pytest.raises(UserError, match="no image of the class 'ant'"):
        cut_guide(one_ant, 0.2)
