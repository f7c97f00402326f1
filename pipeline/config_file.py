"""pipeline.toml: read with every mistake listed at once, and written with a comment on every setting."""

import difflib
import json
import os
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from pipeline.config import Config
from pipeline.errors import UserError
from pipeline.section import describe_range, describe_setting
from pipeline.whole_files import read_given

_MAX_FILE_MB = 1
_COMMENT_WIDTH = 116
_LONGEST_VALUE = 200
_OUTSIDE = {"greater_than_equal", "greater_than", "less_than_equal", "less_than", "finite_number"}

Overrides = Mapping[str, Mapping[str, Any]]


def read_config(path: Path, overrides: Overrides | None = None, optional: bool = False) -> Config:
    """The configuration in a TOML file, with the values of `overrides` (section -> setting -> value) on top.

    Where the file is `optional` and not there, every setting has its default.
    """
    given = any(value is not None for values in (overrides or {}).values() for value in values.values())
    origin = f"{path} with the flags that this run was given" if given else str(path)
    record = {} if optional and not path.exists() else _read_toml(path)
    return make_config(_merge(record, overrides or {}), origin)


def make_config(record: Mapping[str, Any], origin: str) -> Config:
    """A checked configuration; all mistakes are named in one error."""
    try:
        return Config.model_validate(record)
    except ValidationError as error:
        mistakes = [_describe(detail) for detail in error.errors()]
        raise UserError(
            "\n  ".join([f"{origin} has {len(mistakes)} mistake{'s' * (len(mistakes) > 1)}:", *mistakes])
        ) from None


def _read_toml(path: Path) -> dict[str, Any]:
    if not os.path.lexists(path):
        raise UserError(f"there is no {path}; `pipeline init` writes one")
    content = read_given(path, _MAX_FILE_MB)
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None


def _merge(record: dict[str, Any], overrides: Overrides) -> dict[str, Any]:
    merged = dict(record)
    for section, values in overrides.items():
        given = {name: value for name, value in values.items() if value is not None}
        if given and isinstance(merged.get(section, {}), dict):
            merged[section] = {**merged.get(section, {}), **given}
    return merged


def _describe(detail: Any) -> str:
    """One mistake, as a person would say it."""
    first, *rest = [_in_one_line(str(part)) for part in detail["loc"]]
    place = f"[{first}] {rest[0]}" if rest else f"[{first}]"
    section: type[BaseModel] = type(getattr(Config(), first)) if rest else Config
    known, name = list(section.model_fields), rest[0] if rest else first
    if detail["type"] == "extra_forbidden":
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        return f"{place} is not a setting; did you mean {nearest[0]}? (known: {', '.join(known)})"
    if detail["type"] in ("model_type", "model_attributes_type"):
        return f"{place} must be a section, not {detail['input']!r}"
    message = detail["msg"].removeprefix("Input ")
    if detail["type"] in _OUTSIDE:
        message = f"must be {describe_range(section.model_fields[name])}"
    value = json.dumps(detail["input"], default=str)
    return f"{place} = {value if len(value) <= _LONGEST_VALUE else value[:_LONGEST_VALUE] + ' …'}: {message}"


def _in_one_line(key: str) -> str:
    """A key may be any text, also one that looks like a second error."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in key)


def render_config(config: Config, heading: str = "", full: bool = True) -> str:
    """The configuration as TOML with a comment above every setting; with `full` it states ranges too.

    Without `full` only those that users touch and those that are not at their default: the file means the same.
    """
    lines = [f"# {line}".rstrip() for line in heading.splitlines()]
    for name, section in config:
        fields = type(section).model_fields
        shown = [
            line
            for setting, value in section
            if full or setting in section.essential or value != fields[setting].default
            for line in (*_describe_setting(fields[setting], full), f"{setting} = {toml_value(value)}")
        ]
        if shown:
            lines += ["", *_comment(type(section).__doc__ or ""), f"[{name}]", *shown]
    return "\n".join(lines).strip() + "\n"


def _describe_setting(field: FieldInfo, full: bool) -> list[str]:
    return _comment(describe_setting(field) if full else field.description or "")


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _COMMENT_WIDTH)]


def toml_value(value: object) -> str:
    """A value in TOML notation; JSON's is the same for the types that settings have."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


class BudgetFlags(NamedTuple):
    """`--budget-ms` as settings: one budget is the target's, several are discretize's."""

    target: dict[str, Any]
    several: dict[str, Any]


def budget_flags(text: str | None) -> BudgetFlags:
    """ "20" or "5,10,20" as settings; text that is no number is refused."""
    if text is None:
        return BudgetFlags({}, {})
    try:
        budgets = [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--budget-ms {text!r} is not a number, or several with commas between them") from None
    return (
        BudgetFlags({"budget_ms": budgets[0]}, {"budgets_ms": []})
        if len(budgets) == 1
        else BudgetFlags({}, {"budgets_ms": budgets})
    )
