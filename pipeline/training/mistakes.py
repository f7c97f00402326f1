"""The answers that a network is most wrong about, with their images, for a person to look at."""

import base64
import io
from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from pipeline.artifacts.mistakes import Mistake, Mistakes
from pipeline.data import ImageSet
from pipeline.training.measures import Predictions

_SHOWN = 24
_LARGEST_PX = 96


def find_mistakes(predictions: Predictions, images: ImageSet, labels: Sequence[str]) -> Mistakes:
    """Wrong answers in order of the confidence that the network has in them."""
    confidence, answers = predictions.logits.double().softmax(1).max(1)
    wrong = (answers != predictions.labels).nonzero().flatten()
    order = wrong[torch.argsort(confidence[wrong], descending=True, stable=True)][:_SHOWN].tolist()
    shown = [
        Mistake(
            image=int(images.indices[position]),
            file=images.images.name(int(images.indices[position])),
            truth=labels[int(predictions.labels[position])],
            answer=labels[int(answers[position])],
            confidence=float(confidence[position]),
            png=_encode(images[position][0]),
        )
        for position in order
    ]
    return Mistakes(wrong=len(wrong), shown=shown)


def _encode(pixels: Tensor) -> str:
    """An image of bytes, [channels, height, width], as PNG in base64; large ones are made smaller."""
    array = pixels.numpy()
    image = Image.fromarray(array[0] if len(array) == 1 else array.transpose(1, 2, 0))
    image.thumbnail((_LARGEST_PX, _LARGEST_PX))
    content = io.BytesIO()
    image.save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()
