"""safetensors as bytes that depend on the content alone, and back."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

_LENGTH_BYTES = 8
_FACTS = "__metadata__"


class Tensors(NamedTuple):
    """Named tensors, and named texts beside them."""

    tensors: dict[str, Tensor]
    facts: dict[str, str]


def pack(tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> bytes:
    """A safetensors file. The library leaves the facts in the order of a hash map, another in every process."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, dict(facts))
    header, body = _split(content)
    header[_FACTS] = dict(sorted(header[_FACTS].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text + body


def unpack(content: bytes) -> Tensors:
    """What `pack` packed; ValueError when it is not a whole safetensors file."""
    try:
        tensors = load(content)
        facts = _split(content)[0].get(_FACTS, {})
    except (SafetensorError, ValueError, RecursionError, KeyError, AttributeError):
        raise ValueError("it is not a whole safetensors file") from None
    return Tensors(tensors, facts)


def _split(content: bytes) -> tuple[dict[str, dict[str, str]], bytes]:
    end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    return json.loads(content[_LENGTH_BYTES:end]), content[end:]
