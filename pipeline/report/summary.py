"""The closing words of a run: what it found, at which budget, and how to load it."""

from pipeline.console import console, say
from pipeline.deploy.summary import loading_line, summarize
from pipeline.errors import UserError
from pipeline.rundir import RunDir, read_json


def print_summary(run: RunDir) -> None:
    """The table of the export and the line of Python that loads it."""
    if not run.model_card.is_file():
        raise UserError(f"there is no {run.model_card}; run `pipeline export` first")
    console.print(summarize(read_json(run.model_card)))
    say(loading_line(run.model))
