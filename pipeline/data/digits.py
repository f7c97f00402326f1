"""The built-in data: 1,797 handwritten digits of 8 by 8 pixels that scikit-learn carries."""

import hashlib

import torch

from pipeline.config import DataConfig
from pipeline.data.pixels import fit_images
from pipeline.data.pool import Fingerprint, Given, Pool, TensorImages

_WHITE = 16


def load_digits(config: DataConfig) -> Pool:
    """The digits with 0 to 16 stretched to 0 to 255; they come without a test set."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    images = torch.from_numpy(bunch.images).unsqueeze(1)
    targets = torch.from_numpy(bunch.target).to(torch.int64)

    def fingerprint() -> Fingerprint:
        content = images.to(torch.uint8).numpy().tobytes() + targets.numpy().tobytes()
        return Fingerprint(hashlib.sha256(content).hexdigest(), "contents")

    pixels = fit_images(images, config.resolution, config.colour, 255 / _WHITE)
    labels = tuple(str(name) for name in bunch.target_names)
    return Pool(TensorImages(pixels), targets, labels, Given(len(targets), 0, 0), fingerprint)
