"""Ways to spoil a file, known to leave something else than was there."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.campaign.values import draw_value

_CONTENTS = (
    b"{", b"null", b"[]", b"{}", b'"text"', b"NaN", b"[" * 100_000, b'{"a":' * 20_000, b"\xff\xfe\x00", b"PK\x03\x04",
    b"\x80\x04\x95", b"(lp0\n.", b"9" * 9000, b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ", b"\xff" * 9,
    b"\xef\xbb\xbf{}",
)  # fmt: skip
Damage = Callable[[Path], None]


def draw_damage(random: Random, is_json: bool = False) -> tuple[str, Damage]:
    """A name, and what is done to the file."""
    kinds: list[Callable[[Random], tuple[str, Damage]]] = [_flip, _cut, _grow, _replace_content, _replace_kind]
    if is_json:
        kinds += [_edit_json] * 5
    return random.choice(kinds)(random)


def _flip(random: Random) -> tuple[str, Damage]:
    share, bit = random.random(), random.randrange(8)

    def apply(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(share * len(content))] ^= 1 << bit
        path.write_bytes(content)

    return f"bit {bit} flipped at {share:.0%}", apply


def _cut(random: Random) -> tuple[str, Damage]:
    share = random.choice([0.0, random.random(), 0.999])
    return f"cut at {share:.1%}", lambda path: _write(path, path.read_bytes()[: int(share * path.stat().st_size)])


def _grow(random: Random) -> tuple[str, Damage]:
    tail = random.choice([b"\x00", b"}", b"\xff" * 64, b"{}"])
    return f"with {tail[:4]!r} at its end", lambda path: _write(path, path.read_bytes() + tail)


def _replace_content(random: Random) -> tuple[str, Damage]:
    content = random.choice(_CONTENTS)
    return f"replaced by {content[:12]!r}", lambda path: _write(path, content)


def _replace_kind(random: Random) -> tuple[str, Damage]:
    name = random.choice(["nothing", "a folder", "a pipe", "a link to itself", "a link to nothing", "/dev/zero"])

    def apply(path: Path) -> None:
        path.unlink()
        if name == "a folder":
            path.mkdir()
        elif name == "a pipe":
            os.mkfifo(path)
        elif name != "nothing":
            path.symlink_to({"a link to itself": path.name, "a link to nothing": "nowhere"}.get(name, name))

    return f"replaced by {name}", apply


def _edit_json(random: Random) -> tuple[str, Damage]:
    """A key gone, or another value in the place of one, somewhere in the record."""
    seed, drop = random.randrange(2**32), random.random() < 0.3
    value = draw_value(random)

    def apply(path: Path) -> None:
        record, own = json.loads(path.read_bytes()), Random(seed)
        places = list(_places(record))
        holder, key = own.choice(places)
        if drop:
            del holder[key]
        else:
            holder[key] = value if holder[key] != value else [value]
        path.write_text(json.dumps(record), encoding="utf-8", errors="surrogatepass")

    return "a key gone" if drop else f"an entry replaced by {str(value)[:30]!r}", apply


def _places(record: Any) -> Any:
    items = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for key, value in items:
        yield record, key
        yield from _places(value)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
