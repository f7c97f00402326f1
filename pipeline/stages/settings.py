"""The settings that a stage depends on."""

from typing import Any

from pipeline.stages import Stage
from pipeline.stages.context import Context


def settings_of(context: Context, stage: Stage) -> dict[str, Any]:
    """The values of the settings the stage depends on, by dotted name, as JSON keeps them."""
    values: dict[str, Any] = {}
    for name in stage.settings:
        section, _, setting = name.partition(".")
        chosen = getattr(context.config, section)
        for key, value in chosen:
            if not setting or key == setting:
                values[f"{section}.{key}"] = list(value) if isinstance(value, tuple) else value
    return values
