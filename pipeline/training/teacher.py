"""A teacher: a trained classifier of any make that answers in inference mode, at its own size and normalization."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.data import ImageData
from pipeline.data.normalization import Normalization
from pipeline.errors import UserError

_COLOURS = 3


class TeacherInput(Normalization):
    """What a teacher is fed: pixels in 0…1 resized to its own size (bilinear), normalized by its own mean and std.

    A teacher of colour images sees grey ones as [data] colour makes them: repeated.
    """

    def __init__(
        self, mean: Sequence[float], std: Sequence[float], device: torch.device | str, channels_last: bool, side: int
    ) -> None:
        super().__init__(mean, std, device, channels_last)
        self.side = side

    def __call__(self, images: Tensor) -> Tensor:
        if images.shape[-1] != self.side:
            images = functional.interpolate(images, size=(self.side, self.side), mode="bilinear", antialias=True)
        return super().__call__(images.expand(-1, self.mean.shape[1], -1, -1))


@dataclass(frozen=True)
class Teacher:
    """A teacher by the name its user gave it; `sha256` is that of the file its weights are in.

    `labels` are the classes it answers for where it states them; `run` takes what `view` makes of images.
    """

    name: str
    sha256: str
    view: TeacherInput
    run: Callable[[Tensor], Tensor]
    labels: tuple[str, ...] = ()

    def __call__(self, images: Tensor) -> Tensor:
        """Logits [B, classes], float32, for pixels in 0…1, [B, C, R, R]."""
        with torch.inference_mode():
            answers = self.run(self.view(images)).float()
        return answers.clone()  # a tensor that autograd may keep

    def check(self, data: ImageData) -> "Teacher":
        """The teacher itself, if it answers for the classes of the data and takes its channels."""
        require_channels(self.name, self.view.mean.shape[1], data)
        images = torch.zeros(2, data.in_channels, data.resolution, data.resolution, device=self.view.mean.device)
        try:
            answers = self(images)
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            raise UserError(f"the teacher {self.name} cannot answer for images ({reason}); take another") from None
        if answers.dim() != 2 or len(answers) != len(images):
            raise UserError(
                f"the teacher {self.name} answers two images with a tensor of shape {list(answers.shape)}, not "
                f"{[2, data.classes]}; take another"
            )
        if answers.shape[1] != data.classes:
            found = f"{answers.shape[1]} classes, the data have {data.classes}"
            raise UserError(f"the teacher {self.name} answers for {found}; take another")
        if self.labels and self.labels != data.labels:
            differing = (
                f"its class {number} is {own!r}, that of the data {given!r}"
                for number, (own, given) in enumerate(zip(self.labels, data.labels, strict=False))
                if own != given
            )
            where = next(differing, f"it names {len(self.labels)}, the data {data.classes}")
            raise UserError(f"the teacher {self.name} was trained for other classes: {where}; take another")
        return self


def require_channels(name: str, channels: int, data: ImageData) -> None:
    """Refuse a teacher that cannot be fed the data: grey images can be repeated, colours not be guessed."""
    if channels != data.in_channels and not (channels == _COLOURS and data.in_channels == 1):
        hint = "set [data] colour = false, or take another" if channels == 1 else "take another"
        raise UserError(f"the teacher {name} takes {channels} channels, the data have {data.in_channels}; {hint}")
