"""Options that several commands share; a setting's description in config.py is the help of its flag."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import typer

from pipeline.config import Config
from pipeline.errors import UserError
from pipeline.section import describe_setting


def setting(section: str, name: str, *flags: str, **looks: Any) -> Any:
    """The flag of a setting in pipeline.toml, with its description as help; `looks` are how its value is read."""
    field = type(getattr(Config(), section)).model_fields[name]
    flags = flags or (f"--{name.replace('_', '-')}",)
    return typer.Option(*flags, help=describe_setting(field), show_default="pipeline.toml", **looks)


def parse_budget(text: str) -> float:
    """A budget of a command that takes one; several are chosen for by `discretize`."""
    try:
        return float(text)
    except ValueError:
        pass
    several = (
        f"; `pipeline discretize --budget-ms {text}` chooses networks for several budgets, other commands take one"
        if "," in text
        else ""
    )
    raise UserError(f"--budget-ms {text!r} is not a number{several}")


_ONE_BUDGET: dict[str, Any] = {"parser": parse_budget, "metavar": "<float>"}


ConfigFile = Annotated[Path, typer.Option("--config", help="The configuration file.")]
RunName = Annotated[str, typer.Option("--run", help="Name of the run, a folder in runs/.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
BudgetMs = Annotated[float | None, setting("target", "budget_ms", **_ONE_BUDGET)]
Percentile = Annotated[int | None, setting("target", "percentile")]
Table = Annotated[Path | None, setting("target", "table")]
AllowMismatch = Annotated[bool | None, setting("target", "allow_mismatch", "--allow-mismatch")]
Force = Annotated[bool, typer.Option("--force", help="Run it from the start, even if it is up to date.")]
Yes = Annotated[bool, typer.Option("--yes", help="Make finished work again without a question.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would run and how long; write nothing.")]
ChosenBudget = Annotated[
    float | None,
    typer.Option("--budget-ms", help="Which of several budgets of `pipeline discretize` is meant.", **_ONE_BUDGET),
]
WriteKit = Annotated[
    Path | None, typer.Option("--write-kit", help="Write a folder that a target with only onnxruntime times.")
]
FromKit = Annotated[
    Path | None, typer.Option("--from-kit", help="Use what the target has measured: kit_result.json of a kit.")
]
Flags = dict[str, dict[str, Any]]
CONFIG_FILE = Path("pipeline.toml")


class Kit(NamedTuple):
    """A kit to be written to a folder, or one that comes back measured."""

    written: Path | None
    measured: Path | None

    @classmethod
    def of(cls, write_kit: Path | None, from_kit: Path | None) -> Self | None:
        """What --write-kit and --from-kit ask for, if anything."""
        if write_kit is not None and from_kit is not None:
            raise UserError("give either --write-kit DIR or --from-kit FILE")
        return None if write_kit is None and from_kit is None else cls(write_kit, from_kit)


def absolute(path: Path | None) -> str | None:
    """A path given on the command line is relative to the shell, one in the file to the file."""
    return None if path is None else str(path.absolute())
