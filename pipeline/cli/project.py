"""Commands that prepare a project."""

from typing import Annotated

import typer

from pipeline.cli.application import app
from pipeline.cli.options import CONFIG_FILE, AsJson, ConfigFile, RunName
from pipeline.presets import PRESET_NAMES
from pipeline.rundir import DEFAULT_RUN


@app.command()
def init(
    preset: Annotated[str, typer.Option(help=f"One of {', '.join(PRESET_NAMES)}.")] = "digits",
    config: ConfigFile = CONFIG_FILE,
    full: Annotated[bool, typer.Option("--full", help="Write every setting, not only those that users touch.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a commented pipeline.toml."""
    from pipeline.presets import write_preset

    write_preset(preset, config, force, full)


@app.command()
def check(config: ConfigFile = CONFIG_FILE, run: RunName = DEFAULT_RUN, json: AsJson = False) -> None:
    """Look at the data: damaged images, classes, splits, duplicates."""
    from pipeline.console import say
    from pipeline.data.check import check_data
    from pipeline.report.data import report_check
    from pipeline.runner.explaining import explained
    from pipeline.runner.opening import open_run

    context = open_run(config, run, {})
    with explained(context.config):
        found = check_data(context.data)
    report_check(found, json)
    say(f"next: pipeline {context.run.call('run' if context.run.alphas.is_file() else 'profile')}")
