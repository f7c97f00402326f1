"""One call of a stage: what it is given, how it is carried out, and what is said when it is done."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipeline.cli.options import Flags, Kit
from pipeline.rundir import RunDir

if TYPE_CHECKING:
    from pipeline.stages import Stage
    from pipeline.stages.context import Context

_KIT_MODULES = {"discretize": "candidates_kit"}


class Invocation(NamedTuple):
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
            require_all_kept(context.run)
        if self.kit is None or (self.kit.measured and self.stage != "profile"):
            _say_next(context.run, self.stage)
        return context.run

    def preview(self) -> None:
        """Say what the stage would take."""
        from pipeline.runner.execution import preview_stage
        from pipeline.runner.opening import open_run
        from pipeline.stages import stage_named

        preview_stage(open_run(self.config, self.run, self.flags, self.budget_ms), stage_named(self.stage), self.force)


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


def _say_next(run: RunDir, stage: str) -> None:
    """The command that follows."""
    from pipeline.console import say

    following = {"profile": run.call("search") + " --budget-ms X --dry-run", "search": run.call("discretize")}
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


def require_all_kept(run: RunDir) -> None:
    """Fail if one of several budgets was refused, though the others have their networks: a script goes by the code."""
    from pipeline.errors import PromiseBroken
    from pipeline.rundir import refused_budgets

    refused = refused_budgets(run)
    if refused:
        names = ", ".join(f"{budget_ms:g}" for budget_ms in refused)
        raise PromiseBroken(f"no network keeps {names} ms; what was certified for the other budgets is kept")
