"""Commands that show what runs have come to."""

from pathlib import Path

from pipeline.cli.application import app
from pipeline.cli.options import CONFIG_FILE, AsJson, ChosenBudget, ConfigFile, RunName
from pipeline.rundir import DEFAULT_RUN, RunDir


def write_page(run: RunDir, config: Path) -> None:
    """Write the page of a run and say where it is."""
    from pipeline.console import say
    from pipeline.report.page import write_report

    say(f"all of it on one page: {write_report(run, config)}")


@app.command()
def report(config: ConfigFile = CONFIG_FILE, run: RunName = DEFAULT_RUN, budget_ms: ChosenBudget = None) -> None:
    """Write one page with all that a run has to show."""
    from pipeline.runner.opening import take_budget

    found = RunDir(config.absolute().parent, run)
    write_page(found if budget_ms is None else take_budget(found, budget_ms), config)


@app.command("list")
def list_runs(config: ConfigFile = CONFIG_FILE, json: AsJson = False) -> None:
    """List the runs of a project: budget, state, accuracy, latency."""
    from pipeline.report.runs import describe_runs, print_runs

    print_runs(describe_runs(config.absolute().parent), json)
