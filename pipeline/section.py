"""What a section of pipeline.toml is, and the kinds of numbers that its settings may be."""

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]

# How a stage runs, or where something lies whose content counts: never what comes out of it.
WITHOUT_EFFECT = "without effect on results"


class Section(BaseModel):
    """A section of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)
    essential: ClassVar[tuple[str, ...]] = ()

    def effective(self) -> dict[str, Any]:
        """The settings that results depend on, as JSON keeps them: all but those marked WITHOUT_EFFECT."""
        marked = {name for name, field in type(self).model_fields.items() if WITHOUT_EFFECT in field.metadata}
        return self.model_dump(mode="json", exclude=marked)
