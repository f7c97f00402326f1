"""Commands that run stages."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli.application import app
from pipeline.cli.invocation import Invocation, require_all_kept
from pipeline.cli.options import (
    CONFIG_FILE,
    AllowMismatch,
    BudgetMs,
    ChosenBudget,
    ConfigFile,
    DryRun,
    Flags,
    Force,
    FromKit,
    Kit,
    Percentile,
    RunName,
    Table,
    WriteKit,
    Yes,
    absolute,
    setting,
)
from pipeline.cli.reports import write_page
from pipeline.rundir import DEFAULT_RUN


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
    yes: Yes = False,
) -> None:
    """Time every candidate operation on the target."""
    columns = None if precision is None else precision.split(",")
    settings = {"validate_networks": validate, "precision": columns, "backend": backend}
    flags: Flags = {"target": {"device": device, "threads": threads}, "profile": settings}
    kit = Kit.of(write_kit, from_kit)
    Invocation("profile", config, run, flags, kit=kit, force=force, yes=yes).execute()


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
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Run the constrained architecture search."""
    flags = {
        "target": _target_flags(budget_ms, percentile, table, allow_mismatch),
        "search": {"method": method, "epochs": epochs, "allow_unvalidated": allow_unvalidated},
    }
    if dry_run:
        Invocation("search", config, run, flags, force=force).preview()
        return
    Invocation("search", config, run, flags, force=force, yes=yes).execute()


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
    yes: Yes = False,
) -> None:
    """Choose the best cell that fits, measured before it is trained."""
    from pipeline.config_file import budget_flags

    target, several = budget_flags(budget_ms)
    flags: Flags = {"target": {**target, "percentile": percentile}, "discretize": {**several, "rule": rule}}
    kit = Kit.of(write_kit, from_kit)
    Invocation("discretize", config, run, flags, kit=kit, force=force, yes=yes).execute()


@app.command()
def retrain(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    genotype: Annotated[Path | None, setting("retrain", "genotype")] = None,
    data: Annotated[Path | None, setting("data", "path", "--data")] = None,
    epochs: Annotated[int | None, setting("retrain", "epochs")] = None,
    learn: Annotated[str | None, setting("autodo", "learn")] = None,
    guide: Annotated[Path | None, setting("autodo", "guide")] = None,
    guide_share: Annotated[float | None, setting("autodo", "guide_share")] = None,
    teacher: Annotated[str | None, setting("retrain", "teacher")] = None,
    start: Annotated[str | None, setting("retrain", "start")] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Only show labels that look wrong; no weights.")] = False,
    budget_ms: ChosenBudget = None,
    force: Force = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Train the stacked network; learn from a teacher and about the training images on the way."""
    from pipeline.training.teacher_source import absolute_source

    own = {"genotype": absolute(genotype), "epochs": epochs, "teacher": absolute_source(teacher), "start": start}
    flags: Flags = {"retrain": own, "data": {"path": absolute(data)}}
    flags["autodo"] = {"learn": learn, "guide": absolute(guide), "guide_share": guide_share}
    if dry_run:
        Invocation("retrain", config, run, flags, budget_ms, force=force).preview()
        return
    if audit:
        from pipeline.runner.execution import run_audit
        from pipeline.runner.opening import open_run

        run_audit(open_run(config, run, flags, budget_ms), force)
        return
    Invocation("retrain", config, run, flags, budget_ms, force=force, yes=yes).execute()


@app.command()
def teach(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    teacher: Annotated[str | None, setting("retrain", "teacher")] = None,
    epochs: Annotated[int | None, setting("teach", "epochs")] = None,
    force: Force = False,
    yes: Yes = False,
) -> None:
    """Fine-tune a network of timm on the data, for retrain to learn from."""
    from pipeline.training.teacher_source import absolute_source

    flags: Flags = {"retrain": {"teacher": absolute_source(teacher)}, "teach": {"epochs": epochs}}
    Invocation("teach", config, run, flags, force=force, yes=yes).execute()


@app.command()
def export(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    format: Annotated[str | None, setting("export", "format")] = None,
    int8: Annotated[bool | None, setting("export", "int8", "--int8/--no-int8")] = None,
    budget_ms: ChosenBudget = None,
    write_kit: WriteKit = None,
    from_kit: FromKit = None,
    force: Force = False,
    yes: Yes = False,
) -> None:
    """Write the checked model that is deployed."""
    from pipeline.report.summary import print_summary
    from pipeline.runner.log import logged

    flags: Flags = {"export": {"format": format, "int8": int8}}
    kit = Kit.of(write_kit, from_kit)
    done = Invocation("export", config, run, flags, budget_ms, kit, force, yes).execute()
    if kit is None or kit.measured:
        with logged(done, goes_on=True):
            print_summary(done)
        write_page(done, config)


@app.command()
def run(
    config: ConfigFile = CONFIG_FILE,
    run: RunName = DEFAULT_RUN,
    budget_ms: BudgetMs = None,
    percentile: Percentile = None,
    yes: Yes = False,
) -> None:
    """Run all stages, without those that are up to date."""
    from pipeline.report.summary import print_summary
    from pipeline.runner.execution import run_all
    from pipeline.runner.log import logged
    from pipeline.runner.opening import open_run

    context = open_run(config, run, {"target": {"budget_ms": budget_ms, "percentile": percentile}})
    run_all(context, yes)
    with logged(context.run, goes_on=True):
        print_summary(context.run)
    write_page(context.run, config)
    require_all_kept(context.run)
