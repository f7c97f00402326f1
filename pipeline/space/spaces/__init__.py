"""The registry of search spaces. A new space is a file beside this one and a line in `_SPACES`."""

from pipeline.errors import UserError
from pipeline.space.cells import Space
from pipeline.space.spaces.darts import DARTS
from pipeline.space.spaces.mobile import MOBILE
from pipeline.space.spaces.nasbench201 import NASBENCH201
from pipeline.space.spaces.nasbench_macro import NASBENCH_MACRO

_SPACES: dict[str, Space] = {space.name: space for space in (DARTS, NASBENCH201, MOBILE, NASBENCH_MACRO)}
SPACE_NAMES: tuple[str, ...] = tuple(_SPACES)


def space_named(name: str) -> Space:
    """The space of that name; unknown names are refused with the known ones."""
    if name not in _SPACES:
        raise UserError(f"unknown space {name!r}; known are {', '.join(_SPACES)}")
    return _SPACES[name]
