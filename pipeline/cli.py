"""The commands: one short function each. Whatever is heavy is imported inside the function."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.config import Config
from pipeline.errors import PipelineError, UserError
from pipeline.openmp import settle_waiting
from pipeline.presets import PRESET_NAMES
from pipeline.rundir import DEFAULT_RUN, RunDir

app = typer.Typer(
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # which would take [data] in a help text for markup
    help="Find, train and export the best network that keeps to a latency budget measured on your own machine.",
)


def setting(section: str, name: str, *flags: str) -> Any:
    """The flag of a setting in pipeline.toml, with its description as help."""
    field = type(getattr(Config(), section)).model_fields[name]
    return typer.Option(
        *(flags or (f"--{name.replace('_', '-')}",)), help=field.description, show_default="pipeline.toml"
    )


ConfigFile = Annotated[Path, typer.Option("--config", help="The configuration file.")]
RunName = Annotated[str, typer.Option("--run", help="Name of the run, a folder in runs/.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")]
BudgetMs = Annotated[float | None, setting("target", "budget_ms")]
Percentile = Annotated[int | None, setting("target", "percentile")]
Table = Annotated[Path | None, setting("target", "table")]
AllowMismatch = Annotated[bool | None, setting("target", "allow_mismatch", "--allow-mismatch")]
Force = Annotated[bool, typer.Option("--force", help="Run it from the start, even if it is up to date.")]
Flags = dict[str, dict[str, Any]]
CONFIG_FILE = Path("pipeline.toml")


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """What is asked of no command."""
    if version:
        from importlib.metadata import version as version_of

        sys.stdout.write(f"latency-pipeline {version_of('latency-pipeline')}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


def _stage(name: str, config: Path, run: str, force: bool, flags: Flags) -> RunDir:
    from pipeline.runner.execution import run_stage
    from pipeline.runner.opening import open_run
    from pipeline.stages import stage_named

    context = open_run(config, run, flags)
    run_stage(context, stage_named(name), force)
    return context.run


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
    from pipeline.data.check import check_data
    from pipeline.report.data import report_check
    from pipeline.runner.opening import open_run

    report_check(check_data(open_run(config, run, {}).data), json)


@app.command()
def profile(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    device: Annotated[str | None, setting("target", "device")] = None,
    threads: Annotated[int | None, setting("target", "threads")] = None,
    validate: Annotated[int | None, setting("profile", "validate_networks", "--validate")] = None,
    precision: Annotated[str | None, setting("profile", "precision")] = None,
    backend: Annotated[str | None, setting("profile", "backend")] = None,
    write_kit: Annotated[Path | None, typer.Option(help="Write a folder that times itself without torch.")] = None,
    from_kit: Annotated[Path | None, typer.Option(help="Make the table from what a kit has measured.")] = None,
    force: Force = False,
) -> None:
    """Time every candidate operation on the target."""
    columns = None if precision is None else precision.split(",")
    settings = {"validate_networks": validate, "precision": columns, "backend": backend}
    flags: Flags = {"target": {"device": device, "threads": threads}, "profile": settings}
    from pipeline.runner.opening import open_run, remember_flags
    from pipeline.stages import profile as stage

    if write_kit is None and from_kit is None:
        _stage("profile", config, run, force, flags)
        return
    context = open_run(config, run, flags)
    if write_kit is not None:
        stage.write_kit(context, write_kit)
    elif from_kit is not None:
        stage.use_kit(context, from_kit)
    remember_flags(context)


@app.command()
def search(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    budget_ms: BudgetMs = None,
    percentile: Percentile = None,
    method: Annotated[str | None, setting("search", "method")] = None,
    epochs: Annotated[int | None, setting("search", "epochs")] = None,
    table: Table = None,
    allow_mismatch: AllowMismatch = None,
    allow_unvalidated: Annotated[bool | None, setting("search", "allow_unvalidated", "--allow-unvalidated")] = None,
    force: Force = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run and how long; write nothing.")] = False,
) -> None:
    """Run the constrained architecture search."""
    flags = {
        "target": _target_flags(budget_ms, percentile, table, allow_mismatch),
        "search": {"method": method, "epochs": epochs, "allow_unvalidated": allow_unvalidated},
    }
    if dry_run:
        from pipeline.runner.opening import open_run
        from pipeline.stages.search import preview

        preview(open_run(config, run, flags))
        return
    _stage("search", config, run, force, flags)


def _target_flags(
    budget_ms: float | None, percentile: int | None, table: Path | None, allow_mismatch: bool | None
) -> dict[str, Any]:
    return {
        "budget_ms": budget_ms,
        "percentile": percentile,
        "table": _absolute(table),
        "allow_mismatch": allow_mismatch,
    }


def _absolute(path: Path | None) -> str | None:
    """A path given on the command line is relative to the shell, one in the file to the file."""
    return None if path is None else str(path.absolute())


@app.command()
def discretize(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    budget_ms: Annotated[str | None, typer.Option(help="One budget, or several as 5,10,20.")] = None,
    percentile: Percentile = None,
    rule: Annotated[str | None, setting("discretize", "rule")] = None,
    force: Force = False,
) -> None:
    """Choose the best cell that fits, measured before it is trained."""
    from pipeline.config_file import budget_flags

    target, several = budget_flags(budget_ms)
    flags: Flags = {"target": {**target, "percentile": percentile}, "discretize": {**several, "rule": rule}}
    _stage("discretize", config, run, force, flags)


@app.command()
def retrain(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    genotype: Annotated[Path | None, setting("retrain", "genotype")] = None,
    data: Annotated[Path | None, setting("data", "path", "--data")] = None,
    epochs: Annotated[int | None, setting("retrain", "epochs")] = None,
    force: Force = False,
) -> None:
    """Train the stacked network."""
    flags: Flags = {"retrain": {"genotype": _absolute(genotype), "epochs": epochs}, "data": {"path": _absolute(data)}}
    _stage("retrain", config, run, force, flags)


@app.command()
def export(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    format: Annotated[str | None, setting("export", "format")] = None,
    int8: Annotated[bool | None, setting("export", "int8", "--int8/--no-int8")] = None,
    force: Force = False,
) -> None:
    """Write the checked model that is deployed."""
    from pipeline.report.summary import print_summary

    print_summary(_stage("export", config, run, force, {"export": {"format": format, "int8": int8}}))


@app.command()
def run(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    budget_ms: BudgetMs = None,
    percentile: Percentile = None,
) -> None:
    """Run all stages, without those that are up to date."""
    from pipeline.report.summary import print_summary
    from pipeline.runner.execution import run_all
    from pipeline.runner.opening import open_run

    context = open_run(config, run, {"target": {"budget_ms": budget_ms, "percentile": percentile}})
    run_all(context)
    print_summary(context.run)


@app.command()
def rank(
    genotypes: Annotated[Path, typer.Option(help="A file with one genotype per line.")],
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    minutes: Annotated[float | None, setting("discretize", "evidence_minutes", "--minutes")] = None,
    json: AsJson = False,
) -> None:
    """Say which of several genotypes is best on this run's data, with the evidence."""
    from pipeline.console import print_ranking
    from pipeline.runner.opening import open_run
    from pipeline.stages.rank import rank as rank_genotypes

    context = open_run(config, run, {"discretize": {"evidence_minutes": minutes}})
    print_ranking(rank_genotypes(context, genotypes), json)


@app.command()
def inspect(
    genotype: Annotated[Path | None, typer.Option(help="A genotype file.")] = None,
    run: Annotated[str | None, typer.Option("--run", help="A run that has chosen its network.")] = None,
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

    if (genotype is None) == (run is None):
        raise UserError("give either --genotype FILE or --run NAME")
    target = {"device": device, "threads": threads, "batch": batch, "table": _absolute(table)}
    flags: Flags = {"target": {**target, "allow_mismatch": allow_mismatch}, "profile": {"backend": backend}}
    settings = read_config(config, flags, optional=config == CONFIG_FILE)
    size, project = Size(cells, channels, resolution, classes, in_channels), config.absolute().parent
    if genotype is not None:
        found = inspect_file(genotype, size, settings, project, measure)
    else:
        found = inspect_run(RunDir(project, str(run)), size, settings, measure)
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


def main() -> None:
    """The console script: every error a user may see is caught here, once."""
    settle_waiting()
    try:
        status = app(standalone_mode=False)
    except PipelineError as error:
        status = _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        status = _fail("interrupted; the same command goes on from what was saved", 130)
    except OSError as error:
        status = _fail(
            f"{error.strerror or error}: {error.filename or 'the system gives no file'}", UserError.exit_code
        )
    except typer.Abort:
        status = _fail("interrupted", 130)
    except typer.Exit as stop:
        status = stop.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):  # not one of Click's usage errors
            raise
        status = _fail(error.format_message(), UserError.exit_code)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(sentence: str, exit_code: int) -> int:
    from rich.text import Text

    from pipeline.console import console

    console.print(Text.assemble(("error: ", "bold red"), sentence), soft_wrap=True)
    return exit_code
