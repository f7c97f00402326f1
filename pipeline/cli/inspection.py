"""Commands that look at networks and files, and change nothing."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.application import app
from pipeline.cli.options import (
    CONFIG_FILE,
    AllowMismatch,
    AsJson,
    ChosenBudget,
    ConfigFile,
    Flags,
    RunName,
    Table,
    absolute,
    setting,
)
from pipeline.errors import UserError
from pipeline.rundir import DEFAULT_RUN


@app.command()
def rank(
    genotypes: Annotated[Path, typer.Option(help="A file with one genotype per line.")],
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    minutes: Annotated[float | None, setting("discretize", "evidence_minutes", "--minutes")] = None,
    search_minutes: Annotated[float | None, setting("discretize", "rank_minutes", "--search-minutes")] = None,
    json: AsJson = False,
) -> None:
    """Say which of several genotypes is best on this run's data, with the evidence."""
    from pipeline.console import print_ranking
    from pipeline.runner.explaining import explained
    from pipeline.runner.opening import open_run
    from pipeline.stages.rank import rank as rank_genotypes

    flags: Flags = {"discretize": {"evidence_minutes": minutes, "rank_minutes": search_minutes}}
    context = open_run(config, run, flags)
    with explained(context.config):
        ranking = rank_genotypes(context, genotypes)
    print_ranking(ranking, json)


@app.command()
def inspect(
    genotype: Annotated[Path | None, typer.Option(help="A genotype file.")] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", help="A run that has chosen its network; not with a file.", show_default=DEFAULT_RUN),
    ] = None,
    budget_ms: ChosenBudget = None,
    cells: Annotated[int | None, typer.Option(help="Cells of the network.")] = None,
    channels: Annotated[int | None, typer.Option(help="Channels of its first cell.")] = None,
    resolution: Annotated[int | None, typer.Option(help="Pixels of its square input.")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes.")] = None,
    in_channels: Annotated[int | None, typer.Option(help="1 for grey, 3 for colour images.")] = None,
    table: Table = None,
    allow_mismatch: AllowMismatch = None,
    device: Annotated[str | None, setting("target", "device")] = None,
    threads: Annotated[int | None, setting("target", "threads")] = None,
    batch: Annotated[int | None, setting("target", "batch")] = None,
    backend: Annotated[str | None, setting("profile", "backend")] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Time the network on this machine.")] = False,
    json: AsJson = False,
    config: ConfigFile = CONFIG_FILE,
) -> None:
    """Print size, multiply-adds and latency of a network."""
    from pipeline.config_file import read_config
    from pipeline.console import print_result
    from pipeline.report.inspection import Size, inspect_file, inspect_run
    from pipeline.runner.opening import open_run

    if genotype is not None and run is not None:
        raise UserError("give either --genotype FILE or --run NAME")
    if genotype is not None and budget_ms is not None:
        raise UserError("--budget-ms is for one of several networks of a run; give --run NAME with it")
    target = {"device": device, "threads": threads, "batch": batch, "table": absolute(table)}
    flags: Flags = {"target": {**target, "allow_mismatch": allow_mismatch}, "profile": {"backend": backend}}
    size = Size(cells, channels, resolution, classes, in_channels)
    if genotype is not None:
        settings = read_config(config, flags, optional=config == CONFIG_FILE)
        found = inspect_file(genotype, size, settings, config.absolute().parent, measure)
    else:
        context = open_run(config, DEFAULT_RUN if run is None else run, flags, budget_ms)
        found = inspect_run(context.run, size, context.config, measure)
    print_result(found.record(), json)


@app.command()
def bench(
    models: Annotated[list[Path], typer.Argument(help="An ONNX file, or two to compare.")],
    device: Annotated[str | None, setting("target", "device")] = None,
    threads: Annotated[int | None, setting("target", "threads")] = None,
    batch: Annotated[int | None, setting("target", "batch")] = None,
    shape: Annotated[list[str], typer.Option(help="Shape of an input: 1,3,224,224, or NAME=1,3,224,224.")] = [],  # noqa: B006
    compare: Annotated[bool, typer.Option("--compare", help="Time two files in turn: which is faster?")] = False,
    json: AsJson = False,
    config: ConfigFile = CONFIG_FILE,
) -> None:
    """Print latency percentiles of any ONNX file."""
    from pipeline.config_file import read_config
    from pipeline.console import print_result
    from pipeline.report.benchmark import bench_files

    flags: Flags = {"target": {"device": device, "threads": threads, "batch": batch}}
    settings = read_config(config, flags, optional=config == CONFIG_FILE)
    print_result(bench_files(models, settings.target, shape, compare), json)
