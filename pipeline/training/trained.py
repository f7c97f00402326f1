"""The file that training leaves: weights, and all that is needed to build the network they belong to."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from pipeline.errors import UserError
from pipeline.rundir import writing
from pipeline.space.genotype import genotype_from_record
from pipeline.space.network import Network
from pipeline.space.skeleton import Skeleton

_SCHEMA = 1
# One entry: safetensors does not keep the order of several, and the same weights must be the same bytes.
_ENTRY = "trained"
_AUXILIARY = "auxiliary."


@dataclass(frozen=True)
class Trained:
    """A trained network without its auxiliary head, in evaluation mode; mean and std per channel for pixels in 0…1."""

    network: Network
    mean: tuple[float, ...]
    std: tuple[float, ...]
    labels: tuple[str, ...]


def save_trained(
    path: Path, network: Network, mean: Sequence[float], std: Sequence[float], labels: Sequence[str]
) -> None:
    """The weights as safetensors, with skeleton, genotype, normalization and labels in the metadata."""
    record = {
        "schema": _SCHEMA,
        "skeleton": asdict(network.skeleton),
        "genotype": network.genotype.record(),
        "mean": [float(x) for x in mean],
        "std": [float(x) for x in std],
        "labels": list(labels),
    }
    _check_record(record, str(path))
    tensors = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    with writing(path) as part:
        save_file(tensors, part, {_ENTRY: json.dumps(record)})


def read_trained(path: Path) -> Trained:
    """What `save_trained` wrote; the auxiliary head's weights are left behind."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            record = json.loads((file.metadata() or {}).get(_ENTRY, "null"))
            names = [name for name in file.keys() if not name.startswith(_AUXILIARY)]  # noqa: SIM118
            tensors = {name: file.get_tensor(name) for name in names}
    except FileNotFoundError:
        raise UserError(f"there is no {path}; `pipeline retrain` makes it") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (SafetensorError, ValueError, RecursionError):
        raise UserError(f"{path} is damaged; delete it and run `pipeline retrain` again") from None
    _check_record(record, str(path))
    network = _rebuild(record, tensors, path)
    return Trained(network, tuple(record["mean"]), tuple(record["std"]), tuple(record["labels"]))


def _rebuild(record: dict[str, Any], tensors: dict[str, torch.Tensor], path: Path) -> Network:
    try:
        skeleton = Skeleton(**record["skeleton"])
        network = Network(skeleton, genotype_from_record(record["genotype"], str(path)))
        network.load_state_dict(tensors)
    except (TypeError, RuntimeError):
        raise UserError(
            f"the weights in {path} are not those of the network it names; run `pipeline retrain`"
        ) from None
    return network.eval()


def _check_record(record: Any, origin: str) -> None:
    if not isinstance(record, dict) or record.get("schema") != _SCHEMA:
        raise UserError(f"{origin} is not a file of `pipeline retrain` (schema {_SCHEMA})")
    try:
        channels, classes = record["skeleton"]["in_channels"], record["skeleton"]["classes"]
        mean, std, labels = record["mean"], record["std"], record["labels"]
        usable = (
            len(mean) == len(std) == channels
            and all(math.isfinite(m) and math.isfinite(s) and s > 0 for m, s in zip(mean, std, strict=True))
            and len(labels) == classes
            and all(isinstance(label, str) for label in labels)
        )
    except (KeyError, TypeError):
        usable = False
    if not usable:
        raise UserError(f"{origin}: mean and std must be one per channel, std above 0, labels one per class")
