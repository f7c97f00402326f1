"""Commands that show what runs have come to."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.application import app
from pipeline.cli.options import CONFIG_FILE, AsJson, ChosenBudget, ConfigFile, RunName
from pipeline.rundir import DEFAULT_RUN, RunDir

RIVALS = "mobilenetv3_small,efficientnet_lite0,plain,random"


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


@app.command()
def compare(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    rivals: Annotated[str, typer.Option(help="Networks of timm, plain and random, with commas between.")] = RIVALS,
    minutes: Annotated[float, typer.Option(min=0.0, help="Minutes of training in all; 0: epochs of [retrain].")] = 0.0,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of every network.")] = 3,
    budget_ms: ChosenBudget = None,
    json: AsJson = False,
) -> None:
    """Train other networks of the same latency alike, and say who wins."""
    from pipeline.report.comparison import print_comparison
    from pipeline.runner.explaining import explained
    from pipeline.runner.log import logged
    from pipeline.runner.opening import open_run
    from pipeline.stages.compare import Order, compare

    names = tuple(dict.fromkeys(name.strip() for name in rivals.split(",") if name.strip()))
    context = open_run(config, run, {}, budget_ms)
    with explained(context.config), logged(context.run):
        found = compare(context, Order(names, minutes, tuple(range(seeds))))
        print_comparison(found, json)
    write_page(context.run, config)
