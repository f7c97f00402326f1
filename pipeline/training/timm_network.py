"""Networks of timm by name, with weights that come from safetensors alone."""

import difflib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from pipeline.artifacts.tensors import unpack
from pipeline.console import say
from pipeline.errors import UserError
from pipeline.whole_files import read_regular

_WEIGHTS = "model.safetensors"
_NEAR = 3


class TimmNetwork(NamedTuple):
    """A network, and what it is made for."""

    network: nn.Module
    classes: int
    side: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


def near_names(name: str) -> str:
    """A hint at names of timm that look like this one, or nothing."""
    import timm

    near = difflib.get_close_matches(name, timm.list_models(), n=_NEAR, cutoff=0.5)
    return f"did you mean {', '.join(near)}? " if near else ""


def require_known(name: str) -> None:
    """Refuse a name, or the tag after its dot, that timm does not know."""
    import timm

    if not timm.is_model(name):
        hint = near_names(name) or "`python -c 'import timm; print(timm.list_models())'` lists them; "
        raise UserError(f"[retrain] teacher: timm knows no network {name!r}; {hint}set another".replace("? set", "?"))
    architecture, _, tag = name.partition(".")
    tags = [one.partition(".")[2] for one in timm.list_pretrained(architecture)]
    if tag and tag not in tags:
        there = f"there are {', '.join(tags)}" if tags else "there are none"
        raise UserError(f"[retrain] teacher: timm has no weights {tag!r} of {architecture}; {there}")


def fetch(name: str) -> Path:
    """The file with timm's own weights of a network: from the hub's cache, else over the network."""
    import timm
    from huggingface_hub import hf_hub_download

    require_known(name)
    hub = getattr(timm.get_pretrained_cfg(name), "hf_hub_id", None)
    if not hub:
        raise UserError(f"timm has no weights of {name} as safetensors; take another, or timm:{name}@FILE.safetensors")
    for offline in (True, False):
        try:
            with _hub_quiet():
                return Path(hf_hub_download(hub, _WEIGHTS, local_files_only=offline))
        except Exception as error:  # the hub's own, and those of whatever it sends requests with
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:120].rstrip(". ")
        if offline:
            say(f"fetching the weights of {name} from {hub} …")
    raise UserError(
        f"the weights of {name} are not on this machine and cannot be fetched ({reason}); where there is a network, "
        f'download {_WEIGHTS} of {hub} and set [retrain] teacher = "timm:{name}@{_WEIGHTS}", or set [teach] '
        "pretrained = false and run `pipeline teach`, which trains it from nothing"
    )


@contextmanager
def _hub_quiet() -> Iterator[None]:
    """Without the hub's own lines about every attempt."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file that a user names."""
    try:
        return unpack(read_regular(path)).tensors
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"the teacher's file {path} cannot be used: {error}") from None


def classes_of(name: str) -> int:
    """How many classes timm's own weights of a network answer for."""
    return int(_stated(name)["num_classes"])


def _stated(name: str) -> dict[str, Any]:
    """What timm says about the weights of a network: size, normalization, names of its ends."""
    import timm

    require_known(name)
    stated: Any = timm.get_pretrained_cfg(name) or timm.create_model(name).pretrained_cfg
    return stated if isinstance(stated, dict) else dict(stated.to_dict())


def build(
    name: str, weights: Mapping[str, Tensor] | None, classes: int | None = None, channels: int | None = None
) -> TimmNetwork:
    """timm's network with these weights, or random ones; `classes` asks for another, new head than they have."""
    import timm

    config = _stated(name)
    channels, heads = channels or config["input_size"][0], config["num_classes"]
    if weights is not None:
        channels = _size_of(weights, config.get("first_conv"), 1, channels)
        heads = _size_of(weights, config.get("classifier"), 0, heads)
    overlay: dict[str, Any] | None = None
    if weights is not None:
        # without a first_conv that timm would adapt: the weights are taken as they are
        overlay = {"state_dict": dict(weights), "num_classes": heads, "first_conv": None, "source": ""}
    try:
        network: nn.Module = timm.create_model(
            name,
            pretrained=weights is not None,
            pretrained_cfg_overlay=overlay,
            num_classes=heads,
            in_chans=channels,
        )
        if classes not in (None, heads):
            network.reset_classifier(num_classes=classes)  # type: ignore[operator]
    except (RuntimeError, KeyError, ValueError, AttributeError, TypeError, AssertionError) as error:
        reason = " ".join(str(error).split())[:160]
        raise UserError(f"the weights given are not those of timm's {name}: {reason}") from None
    mean, std = (_per_channel(config[key], channels) for key in ("mean", "std"))
    return TimmNetwork(network, classes or heads, int(config["input_size"][-1]), mean, std)


def _size_of(weights: Mapping[str, Tensor], layers: object, axis: int, otherwise: int) -> int:
    """The size of a layer's weight along an axis, where the file has it under timm's name."""
    names = layers if isinstance(layers, (tuple, list)) else (layers,)
    for name in names:
        weight = weights.get(f"{name}.weight")
        if weight is not None and weight.dim() > axis:
            return int(weight.shape[axis])
    return otherwise


def _per_channel(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    return tuple(values) if len(values) == channels else (sum(values) / len(values),) * channels
