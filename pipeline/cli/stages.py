"""Commands that run stages."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pipeline.cli.application import app
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
from pipeline.config import Config
from pipeline.rundir import DEFAULT_RUN, RunDir

if TYPE_CHECKING:
    from pipeline.stages import Stage
    from pipeline.stages.context import Context

_KIT_MODULES = {"discretize": "candidates_kit"}


class Command(NamedTuple):
    """What every command of a stage is given."""

    stage: str
    config: Path
    run: str
    flags: Flags
    budget_ms: float | None = None
    kit: Kit | None = None
    force: bool = False
    yes: bool = False

    def execute(self) -> RunDir:
        """Run the stage, or hand out or take back its kit."""
        from pipeline.runner.execution import run_stage
        from pipeline.runner.opening import open_run
        from pipeline.stages import stage_named

        context, stage = open_run(self.config, self.run, self.flags, self.budget_ms), stage_named(self.stage)
        if self.kit is None:
            run_stage(context, stage, self.force, self.yes)
        else:
            _exchange_kit(context, stage, self.kit)
        if self.stage == "discretize":
            _tell_of_export(context)
            _require_all_kept(context.run)
        if self.kit is None or (self.kit.measured and self.stage != "profile"):
            _say_next(context.run, self.stage, context.config)
        return context.run

    def preview(self) -> None:
        """Say what the stage would take."""
        from pipeline.runner.execution import preview_stage
        from pipeline.runner.opening import open_run
        from pipeline.stages import stage_named

        preview_stage(open_run(self.config, self.run, self.flags, self.budget_ms), stage_named(self.stage))


def _exchange_kit(context: "Context", stage: "Stage", kit: Kit) -> None:
    """Hand out what the stage wants timed, or take back what the target has measured."""
    from pipeline.artifacts.latency_table import LatencyTable
    from pipeline.runner.execution import hand_out, run_otherwise

    code = import_module(f"pipeline.stages.{_KIT_MODULES.get(stage.name, stage.name)}")
    if kit.written is not None:
        hand_out(context, stage, lambda context: code.write_kit(context, kit.written))
    elif LatencyTable in stage.writes:  # that of another machine, which is no output of this run
        hand_out(context, stage, lambda context: code.use_kit(context, kit.measured))
    else:
        run_otherwise(context, stage, lambda context: code.use_kit(context, kit.measured), f"from {kit.measured}")


def _say_next(run: RunDir, stage: str, config: Config) -> None:
    """The command that follows."""
    from pipeline.console import say

    budget = f" --budget-ms {config.target.budget_ms:g}"
    following = {"profile": run.call("search") + budget, "search": run.call("discretize")}
    following |= {"discretize": run.call("retrain"), "teach": run.call("retrain"), "retrain": run.call("export")}
    if stage in following:
        say(f"next: pipeline {following[stage]}")


def _tell_of_export(context: "Context") -> None:
    """Say when the exported network is no longer the chosen one."""
    from pipeline.console import say
    from pipeline.runner.redoing import outlived_export

    outlived = outlived_export(context)
    if outlived:
        say(outlived)


def _require_all_kept(run: RunDir) -> None:
    """Fail if one of several budgets was refused, though the others have their networks: a script goes by the code."""
    from pipeline.errors import PromiseBroken
    from pipeline.rundir import refused_budgets

    refused = refused_budgets(run)
    if refused:
        names = ", ".join(f"{budget_ms:g}" for budget_ms in refused)
        raise PromiseBroken(f"no network keeps {names} ms; what was certified for the other budgets is kept")


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
    Command("profile", config, run, flags, kit=kit, force=force, yes=yes).execute()


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
        Command("search", config, run, flags).preview()
        return
    Command("search", config, run, flags, force=force, yes=yes).execute()


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
    Command("discretize", config, run, flags, kit=kit, force=force, yes=yes).execute()


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
        Command("retrain", config, run, flags, budget_ms).preview()
        return
    if audit:
        from pipeline.runner.execution import run_audit
        from pipeline.runner.opening import open_run

        run_audit(open_run(config, run, flags, budget_ms), force)
        return
    Command("retrain", config, run, flags, budget_ms, force=force, yes=yes).execute()


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
    Command("teach", config, run, flags, force=force, yes=yes).execute()


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
    done = Command("export", config, run, flags, budget_ms, kit, force, yes).execute()
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
    _require_all_kept(context.run)
