"""Commands that run stages."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli.application import app
from pipeline.cli.options import (
    CONFIG_FILE,
    AllowMismatch,
    BudgetMs,
    ConfigFile,
    Flags,
    Force,
    FromKit,
    Kit,
    Percentile,
    RunName,
    Table,
    WriteKit,
    absolute,
    setting,
)
from pipeline.rundir import DEFAULT_RUN, RunDir


def _stage(name: str, config: Path, run: str, force: bool, flags: Flags) -> RunDir:
    from pipeline.runner.execution import run_stage
    from pipeline.runner.opening import open_run
    from pipeline.stages import stage_named

    context = open_run(config, run, flags)
    run_stage(context, stage_named(name), force)
    return context.run


def _kit(name: str, module: str, config: Path, run: str, flags: Flags, kit: Kit) -> RunDir:
    """Hand out what the stage wants timed, or take back what the target has measured."""
    from pipeline.artifacts.latency_table import LatencyTable
    from pipeline.runner.execution import hand_out, run_otherwise
    from pipeline.runner.opening import open_run
    from pipeline.stages import stage_named

    context, stage = open_run(config, run, flags), stage_named(name)
    code = import_module(f"pipeline.stages.{module}")
    if kit.written is not None:
        hand_out(context, stage, lambda context: code.write_kit(context, kit.written))
    elif LatencyTable in stage.writes:  # that of another machine, which is no output of this run
        hand_out(context, stage, lambda context: code.use_kit(context, kit.measured))
    else:
        run_otherwise(context, stage, lambda context: code.use_kit(context, kit.measured), f"from {kit.measured}")
    return context.run


@app.command()
def profile(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    device: Annotated[str | None, setting("target", "device")] = None,
    threads: Annotated[int | None, setting("target", "threads")] = None,
    validate: Annotated[int | None, setting("profile", "validate_networks", "--validate")] = None,
    precision: Annotated[str | None, setting("profile", "precision")] = None,
    backend: Annotated[str | None, setting("profile", "backend")] = None,
    write_kit: WriteKit = None,
    from_kit: FromKit = None,
    force: Force = False,
) -> None:
    """Time every candidate operation on the target."""
    columns = None if precision is None else precision.split(",")
    settings = {"validate_networks": validate, "precision": columns, "backend": backend}
    flags: Flags = {"target": {"device": device, "threads": threads}, "profile": settings}
    kit = Kit.of(write_kit, from_kit)
    if kit is None:
        _stage("profile", config, run, force, flags)
    else:
        _kit("profile", "profile", config, run, flags, kit)


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
        "table": absolute(table),
        "allow_mismatch": allow_mismatch,
    }


@app.command()
def discretize(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    budget_ms: Annotated[str | None, typer.Option(help="One budget, or several as 5,10,20.")] = None,
    percentile: Percentile = None,
    rule: Annotated[str | None, setting("discretize", "rule")] = None,
    write_kit: WriteKit = None,
    from_kit: FromKit = None,
    force: Force = False,
) -> None:
    """Choose the best cell that fits, measured before it is trained."""
    from pipeline.config_file import budget_flags

    target, several = budget_flags(budget_ms)
    flags: Flags = {"target": {**target, "percentile": percentile}, "discretize": {**several, "rule": rule}}
    kit = Kit.of(write_kit, from_kit)
    if kit is None:
        _stage("discretize", config, run, force, flags)
    else:
        _kit("discretize", "candidates_kit", config, run, flags, kit)


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
    flags: Flags = {"retrain": {"genotype": absolute(genotype), "epochs": epochs}, "data": {"path": absolute(data)}}
    _stage("retrain", config, run, force, flags)


@app.command()
def export(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    format: Annotated[str | None, setting("export", "format")] = None,
    int8: Annotated[bool | None, setting("export", "int8", "--int8/--no-int8")] = None,
    write_kit: WriteKit = None,
    from_kit: FromKit = None,
    force: Force = False,
) -> None:
    """Write the checked model that is deployed."""
    from pipeline.report.summary import print_summary

    flags: Flags = {"export": {"format": format, "int8": int8}}
    kit = Kit.of(write_kit, from_kit)
    if kit is None:
        print_summary(_stage("export", config, run, force, flags))
    elif kit.written is not None:
        _kit("export", "export", config, run, flags, kit)
    else:
        print_summary(_kit("export", "export", config, run, flags, kit))


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
