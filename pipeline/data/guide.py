"""Guide images: those with labels that the user vouches for, apart from all images that are trained on or tested."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from pipeline.config import DataConfig
from pipeline.data import ImageData, ImageSet, load_pool
from pipeline.data.check import digests, name_image
from pipeline.data.folder import FileImages
from pipeline.data.pool import Images, Pool
from pipeline.data.splits import cut
from pipeline.errors import UserError
from pipeline.whole_files import sha256_of

_FORMATS_OF_FOLDERS = ("idx", "cifar10", "cifar100")


class GuideCut(NamedTuple):
    """Training images without the guide, and the guide."""

    kept: ImageSet
    guide: ImageSet


def load_guide(config: DataConfig, path: Path) -> Pool:
    """The images of a guide: an .npz file, or a folder in the format of the data, by default one of class folders."""
    if not path.exists():
        raise UserError(f"there is no {path}; set [autodo] guide to a folder or .npz file of images you have checked")
    of_folder = config.format if config.format in _FORMATS_OF_FOLDERS else "folder"
    kind = "npz" if path.is_file() else of_folder
    try:
        return load_pool(config.model_copy(update={"format": kind, "path": str(path)}), path)
    except UserError as error:
        raise UserError(f"the guide ([autodo] guide) cannot be used: {error}") from None


def make_guide(pool: Pool, data: ImageData) -> ImageSet:
    """All images of a guide under the data's own class numbers; one that is also trained on or tested is refused."""
    targets = _number_as(pool, data)
    guide = ImageSet(pool.images, targets, torch.arange(len(targets)), lambda: data.statistics)
    _require_all_classes(guide, data)
    _refuse_overlap(guide, data)
    return guide


def cut_guide(data: ImageData, share: float) -> GuideCut:
    """A share of every class of the training images as guide, the others without it."""
    whole = data.train_all
    kept, taken = cut(whole.indices, whole.targets, share, data.seed)
    guide = replace(whole, indices=taken)
    _require_all_classes(guide, data)
    return GuideCut(replace(whole, indices=kept), guide)


def _number_as(pool: Pool, data: ImageData) -> Tensor:
    """Labels by the name of their class; a guide that has only numbers counts the classes as the data do."""
    known = {label: number for number, label in enumerate(data.pool.labels)}
    if pool.labels == tuple(map(str, range(len(pool.labels)))):
        known = {str(number): number for number in range(data.classes)}
    for label in pool.labels:
        if label not in known:
            raise UserError(f"the guide has a class {label!r} that the data lack ([autodo] guide)")
    return torch.tensor([known[label] for label in pool.labels])[pool.targets]


def _require_all_classes(guide: ImageSet, data: ImageData) -> None:
    counts = torch.bincount(guide.targets[guide.indices], minlength=data.classes)
    if not counts.all():
        missing = data.labels[int((counts == 0).nonzero()[0])]
        raise UserError(f"the guide has no image of the class {missing!r}; [autodo] needs some of every class")


def _refuse_overlap(guide: ImageSet, data: ImageData) -> None:
    images = data.pool.images
    too_many = any(isinstance(one, FileImages) and not one.fits for one in (guide.images, images))
    # decoding all of them only to compare them would take hours
    shared = _shared_files(guide.images, images) if too_many else _shared_pixels(guide, data)
    if shared:
        more = f" and {len(shared) - 1} more" * (len(shared) > 1)
        raise UserError(
            f"the guide holds {shared[0]}{more}, also among the images that are trained on or tested; a guide must be "
            "apart from them: move it out of [data] path, or set guide_share instead"
        )


def _shared_pixels(guide: ImageSet, data: ImageData) -> list[str]:
    used = torch.cat([data.split.train_all, data.split.test])
    own = {digest: index for index, digest in digests(guide.images, guide.indices)}
    found = {own[digest] for _, digest in digests(data.pool.images, used) if digest in own}
    return [name_image(guide.images, index) for index in sorted(found)]


def _shared_files(guide: Images, images: Images) -> list[str]:
    """Files of the guide with the content of one of the data's; only files of one size are read."""
    if not isinstance(guide, FileImages) or not isinstance(images, FileImages):
        return []
    by_size: dict[int, list[Path]] = {}
    for file in images.files:
        by_size.setdefault(file.stat().st_size, []).append(file)
    return [
        str(file)
        for file in guide.files
        if (alike := by_size.get(file.stat().st_size)) and sha256_of(file) in map(sha256_of, alike)
    ]
