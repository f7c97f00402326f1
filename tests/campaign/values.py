"""Values that nobody should have written: drawn by hypothesis, repeatable by a seed."""

import math
from functools import lru_cache
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

_SETTINGS = settings(
    max_examples=150, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
_NUMBERS = (0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), 10**400)
_FLOATS = (0.0, -0.0, 0.5, 1.0, -1.0, 1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf, 1e-9)
_TEXTS = ("", " ", "\x00", "\x1b[2J", "\u2028", "..", "../../x", "~nouser", "%s{}", "a" * 5000, "NaN", "猫", "\udc80")

scalars = st.one_of(
    st.sampled_from(_NUMBERS), st.integers(), st.sampled_from(_FLOATS), st.floats(), st.booleans(), st.none(),
    st.sampled_from(_TEXTS), st.text(max_size=20),
)  # fmt: skip
keys = st.text(max_size=5)
records = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3))
)


@lru_cache(maxsize=8)
def _drawn(number: int) -> tuple[Any, ...]:
    found: list[Any] = []

    @seed(number)
    @settings(_SETTINGS)
    @given(records)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return tuple(found)


def draw_value(random: Random) -> Any:
    """A scalar, or a list or record of such."""
    return random.choice(_drawn(random.randrange(4)))


def toml(value: Any) -> str | None:
    """The value in TOML notation, None where TOML has none."""
    if isinstance(value, list):
        parts = [toml(part) for part in value]
        return None if None in parts else f"[{', '.join(map(str, parts))}]"
    if isinstance(value, dict):
        items = [(toml(str(key)), toml(part)) for key, part in value.items()]
        texts = [f"{key} = {part}" for key, part in items]
        return None if any(None in item for item in items) else f"{{{', '.join(texts)}}}"
    return _scalar(value)


def _scalar(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and not _is_text(value)):
        return None
    if isinstance(value, str):
        return '"' + "".join(_escape(character) for character in value) + '"'
    if isinstance(value, bool):
        return str(value).lower()
    return _decimal(value) if isinstance(value, int) else repr(value)


def _decimal(value: int) -> str:
    return hex(value) if value >= 10**300 else str(value)


def _escape(character: str) -> str:
    return character if character.isprintable() and character not in '"\\' else f"\\U{ord(character):08x}"


def _is_text(value: str) -> bool:
    return all(not 0xD800 <= ord(character) < 0xE000 for character in value)
