"""An ONNX file as a teacher: whatever wrote it, it states its size and takes any number of images."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipeline.data.normalization import WHITE
from pipeline.errors import UserError

_TYPES = {"tensor(float)": torch.float32, "tensor(uint8)": torch.uint8}


class OnnxTeacher(NamedTuple):
    """A session with one image input [batch, channels, side, side] and one output of logits."""

    session: Any
    input: str
    channels: int
    side: int
    takes_bytes: bool
    labels: tuple[str, ...]

    def run(self, images: Tensor) -> Tensor:
        """Logits, on the device of the images."""
        fed = (images * WHITE).round().clamp(0, WHITE).to(torch.uint8) if self.takes_bytes else images
        try:
            (answers,) = self.session.run(None, {self.input: fed.contiguous().cpu().numpy()})
        except Exception as error:  # onnxruntime's own exceptions share no base class
            raise RuntimeError(" ".join(str(error).split())[:160]) from None
        return torch.from_numpy(answers).to(images.device)


def open_onnx(path: Path, device: torch.device) -> OnnxTeacher:
    """A session of the file; one whose shapes do not say what it takes is refused."""
    session = _open_session(path, device)
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(outputs) != 1:
        raise _refuse(
            path, f"it has {len(inputs)} inputs and {len(outputs)} outputs where a classifier has one of each"
        )
    entry, shape = inputs[0], inputs[0].shape
    if entry.type not in _TYPES:
        raise _refuse(path, f"its input is of type {entry.type}, not of float32 or uint8")
    if not shape or len(shape) != 4:
        raise _refuse(path, f"its input has the shape {shape or 'of any rank'}, not [batch, channels, height, width]")
    _, channels, height, width = (one if isinstance(one, int) and one > 0 else None for one in shape)
    if channels is None or height is None or width is None:
        raise _refuse(path, f"its input {shape} leaves channels, height or width open; export it at a fixed size")
    if isinstance(shape[0], int):
        raise _refuse(path, f"it takes {shape[0]} images at a time; export it with a batch axis that is free")
    if height != width:
        raise _refuse(path, f"it takes images of {height} × {width} pixels, the data are squares")
    labels = _labels_of(session.get_modelmeta().custom_metadata_map)
    return OnnxTeacher(session, entry.name, channels, height, entry.type == "tensor(uint8)", labels)


def _open_session(path: Path, device: torch.device) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    options.log_severity_level = 3
    there = onnxruntime.get_available_providers()
    wanted = ["CUDAExecutionProvider"] if device.type == "cuda" else []
    providers = [one for one in [*wanted, "CPUExecutionProvider"] if one in there]
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # onnxruntime's own exceptions share no base class
        raise _refuse(path, f"onnxruntime cannot load it: {' '.join(str(error).split())[:160]}") from None


def _refuse(path: Path, reason: str) -> UserError:
    return UserError(f"the teacher {path} cannot be used: {reason}")


def _labels_of(facts: dict[str, str]) -> tuple[str, ...]:
    """The classes that an export of this program states."""
    try:
        found = json.loads(facts.get("labels", "[]"))
    except ValueError:
        return ()
    return tuple(found) if isinstance(found, list) and all(isinstance(one, str) for one in found) else ()
