"""A search without a budget or a latency table, for `rank` where the run has none of its own.

Small, as networks are for short trainings, and as long as its minutes allow; kept in the run by what it depends on.
"""

import shutil
from pathlib import Path

from pipeline.artifacts.alphas import Alphas, SupernetWeights
from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.budget.limits import Limit
from pipeline.console import say
from pipeline.errors import UserError
from pipeline.resumable.checkpoint import hash_of
from pipeline.search.engine import Search
from pipeline.search.guards import describe_short_search
from pipeline.search.loop import SearchFiles, run_search
from pipeline.search.objective import Constraint
from pipeline.search.pace import affordable_epochs
from pipeline.search_config import SearchConfig
from pipeline.selection.short_training import trial_skeleton
from pipeline.space.costs import mac_costs
from pipeline.space.extremes import costliest_genotype
from pipeline.space.score import relative_prices
from pipeline.space.spaces import space_named
from pipeline.stages.context import Context
from pipeline.stages.findings import Findings, Start
from pipeline.whole_files import read_json, write_json


def search_freely(context: Context) -> Findings | None:
    """What a search of [discretize] rank_minutes finds; it goes on where it was stopped, and is made once.

    None where so short a one would not be trusted.
    """
    identity = _identity(context)
    folder = context.run.root / "rank" / f"search-{identity[:12]}"
    alphas, judged, weights = (folder / f"{name}.safetensors" for name in ("alphas", "judged", "weights"))
    if not alphas.is_file():
        search = _make_search(context, _settings(context).model_copy(update={"epochs": _plan(context, folder)}))
        doubt = describe_short_search(search.steps_per_operation)
        if doubt:
            say(f"it is not made, for it would be {doubt}; more --search-minutes would do")
            return None
        checkpoints, constraint = folder / "checkpoint", search.constraint
        files = SearchFiles(checkpoints, folder / "history.jsonl", folder / "tensorboard")
        found = run_search(search, files, identity, context.config.search.checkpoint_s)
        search.judged_networks().write(judged)
        SupernetWeights(search.state.supernet.state_dict()).write(weights)
        tensors = (tuple(found.alphas), constraint.prices, tuple(found.unpenalized))
        Alphas(constraint.space, constraint.scale, *tensors).write(alphas)  # last: it says that all is there
        shutil.rmtree(checkpoints, ignore_errors=True)
    supernet = Start(weights, trial_skeleton(context.search_skeleton))
    return Findings(Alphas.read(alphas), JudgedNetworks.read(judged), supernet)


def _plan(context: Context, folder: Path) -> int:
    """The epochs that the minutes allow, by the speed of the first time: a search that goes on must be the same."""
    path = folder / "plan.json"
    if not path.is_file():
        minutes = context.config.discretize.rank_minutes
        say(
            f"this run has not searched yet: a search without a budget comes first, {minutes:g} minutes of computing "
            "([discretize] rank_minutes); timing a few steps of it …"
        )
        epochs = affordable_epochs(lambda config: _make_search(context, config), _settings(context), minutes)
        write_json(path, {"epochs": epochs})
    record = read_json(path)
    planned = record.get("epochs") if isinstance(record, dict) else None
    if not isinstance(planned, int) or planned < 1:
        raise UserError(f"{path} is damaged: it does not say how many epochs there are; delete it")
    return planned


def _settings(context: Context) -> SearchConfig:
    skeleton = trial_skeleton(context.search_skeleton)
    return context.config.search.model_copy(update={"cells": skeleton.cells, "channels": skeleton.channels})


def _make_search(context: Context, settings: SearchConfig) -> Search:
    """Under a limit that every network keeps, and without prices."""
    space, costs = space_named(context.config.target.space), mac_costs(context.target_skeleton)
    limit = Limit("max_macs", costs, costs.of(costliest_genotype(space, costs)), "MACs")
    constraint = Constraint(space, (limit,), tuple(relative_prices(space, costs)), "off")
    skeleton = trial_skeleton(context.search_skeleton)
    return Search(settings, context.config.compute, context.data, skeleton, constraint, context.device)


def _identity(context: Context) -> str:
    """Everything that changes a bit of the result, and the minutes, by which its length was planned."""
    config = context.config
    return hash_of(
        {
            "search": {name: value for name, value in _settings(context).effective().items() if name != "epochs"},
            "compute": config.compute.effective(),
            "augment": config.data.augment,
            "minutes": config.discretize.rank_minutes,
            "data": context.data.data_hash,
            "skeleton": str(trial_skeleton(context.search_skeleton)),
        }
    )
