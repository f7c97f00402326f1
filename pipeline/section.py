"""What a section of pipeline.toml is, and the kinds of numbers that its settings may be.

Every kind has a range: what lies outside cannot work, or no machine could finish it. Message and `--help` state it.
"""

from typing import Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

Share = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, le=1e9, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0.0, le=1e9, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0.0, le=100.0, allow_inf_nan=False)]
RateOrZero = Annotated[float, Field(ge=0.0, le=100.0, allow_inf_nan=False)]
Milliseconds = Annotated[float, Field(gt=0.0, le=1e6, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
CountOrZero = Annotated[int, Field(ge=0, le=1_000_000)]
Amount = Annotated[int, Field(ge=0, le=10**15)]
Pixels = Annotated[int, Field(ge=4, le=4096)]
PixelsOrZero = Annotated[int, Field(ge=0, le=4096)]
Cells = Annotated[int, Field(ge=1, le=500)]
Channels = Annotated[int, Field(ge=1, le=4096)]
BatchSize = Annotated[int, Field(ge=1, le=65_536)]
TrainingBatch = Annotated[int, Field(ge=2, le=65_536)]  # BatchNorm has no variance in one image
Threads = Annotated[int, Field(ge=1, le=512)]
ThreadsOrZero = Annotated[int, Field(ge=0, le=512)]
Terms = Annotated[int, Field(ge=0, le=1000)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]

# How a stage runs, or where something lies whose content counts: never what comes out of it.
WITHOUT_EFFECT = "without effect on results"

_BOUNDS = ("ge", "gt", "le", "lt")


class Section(BaseModel):
    """A section of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)
    essential: ClassVar[tuple[str, ...]] = ()

    def effective(self) -> dict[str, Any]:
        """The settings that results depend on, as JSON keeps them: all but those marked WITHOUT_EFFECT."""
        marked = {name for name, field in type(self).model_fields.items() if WITHOUT_EFFECT in field.metadata}
        return self.model_dump(mode="json", exclude=marked)


def describe_range(field: FieldInfo) -> str:
    """The numbers that a setting may be, or each number of a list; empty where it is no number."""
    bounds = {name: _show(getattr(part, name)) for part in field.metadata for name in _BOUNDS if hasattr(part, name)}
    if not bounds:
        inner = get_args(field.annotation)
        return describe_range(FieldInfo.from_annotation(inner[0])) if len(inner) == 1 else ""
    high = f"at most {bounds['le']}" if "le" in bounds else f"less than {bounds['lt']}"
    if "gt" in bounds:
        return f"more than {bounds['gt']} and {high}"
    return f"{bounds['ge']} to {high.removeprefix('at most ')}"


def _show(bound: float) -> str:
    return f"{bound:,.0f}" if bound == round(bound) else f"{bound:g}"


def describe_setting(field: FieldInfo) -> str:
    """What a setting means, with its range."""
    text, span = field.description or "", describe_range(field)
    return f"{text} Range: {span}." if span else text
