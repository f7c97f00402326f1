"""`discretize --write-kit` and `--from-kit`: the certificate made by a target that has only onnxruntime."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.console import say
from pipeline.errors import UserError
from pipeline.latency.kit import make_device
from pipeline.latency.models import make_network
from pipeline.latency.network_kit import Asked, network_kit, read_network_kit
from pipeline.selection.budgets import Outcome
from pipeline.selection.candidate import Candidate
from pipeline.selection.handout import candidates_for, choose_measured
from pipeline.selection.job import Job
from pipeline.space.genotype import genotype_from_record
from pipeline.space.skeleton import Skeleton
from pipeline.stages import stage_named
from pipeline.stages.context import Context
from pipeline.stages.discretize import Prospect, budgets_of, discretize, make_job, open_prospect
from pipeline.stages.findings import findings_of
from pipeline.stages.kits import write_with_bar
from pipeline.whole_files import sha256_of


def write_kit(context: Context, folder: Path) -> None:
    """Hand out the candidates of every budget, chosen by what the target's table predicts."""
    prospect, budgets_ms = open_prospect(context, by_prediction=True), budgets_of(context)
    job = make_job(context, prospect, findings_of(context), budgets_ms)
    handed_out = {
        f"{budget_ms!r} ms, {place}": Handed(budget_ms, one.target.skeleton, one.genotype.record())
        for budget_ms in budgets_ms
        for place, one in enumerate(candidates_for(job, budget_ms))
    }
    device, asked = make_device(prospect.device.batch), _asked(context, prospect)
    models = {
        name: lambda one=one: make_network(device, one.skeleton, genotype_from_record(one.genotype))
        for name, one in handed_out.items()
    }
    about = {**_about(context), "candidates": {name: one.record() for name, one in handed_out.items()}}
    write_with_bar(network_kit(about, models, asked, f"discretize{context.run.flag}"), folder)
    say(f"{len(models)} candidates, best first, for {', '.join(f'{one:g}' for one in budgets_ms)} ms")


def use_kit(context: Context, path: Path) -> None:
    """The stage, with the target's own measurements in place of ours."""
    prospect = open_prospect(context, by_prediction=True)
    answers = read_network_kit(path, _about(context), _asked(context, prospect))
    handed = {name: _read_candidate(name, record, path) for name, record in answers.kit["candidates"].items()}
    measured = {(one.skeleton, str(one.genotype)): answers.measured[name] for name, one in handed.items()}

    def select(job: Job, budget_ms: float) -> Outcome:
        own = [_candidate_of(job, one, path) for one in handed.values() if one.budget_ms == budget_ms]
        return choose_measured(job, budget_ms, own, measured)

    discretize(context, prospect._replace(table=prospect.table._replace(differences=())), select)


class Handed(NamedTuple):
    """A network that was handed out for a budget."""

    budget_ms: float
    skeleton: Skeleton
    genotype: dict[str, Any]

    def record(self) -> dict[str, Any]:
        return {"budget_ms": self.budget_ms, "skeleton": asdict(self.skeleton), "genotype": self.genotype}


def _read_candidate(name: str, record: Mapping[str, Any], path: Path) -> Handed:
    try:
        genotype = genotype_from_record(record["genotype"], f"{path}, candidate {name!r}")
        return Handed(float(record["budget_ms"]), Skeleton(**record["skeleton"]), genotype.record())
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path} is not the result of a kit of candidates") from None


def _candidate_of(job: Job, one: Handed, path: Path) -> Candidate:
    target = next((target for target in job.chooser.targets if target.skeleton == one.skeleton), None)
    if target is None:
        raise UserError(f"{path} holds a network of another size than the configuration allows; write a new kit")
    return job.chooser.candidate_of(target, genotype_from_record(one.genotype))


def _about(context: Context) -> dict[str, Any]:
    """What a kit belongs to: the search, and every setting that the selection depends on."""
    settings = stage_named("discretize").settings_in(context.config)
    return {"discretize": {**settings, "alphas": sha256_of(context.run.alphas)}}


def _asked(context: Context, prospect: Prospect) -> Asked:
    target = context.config.target
    return Asked(prospect.device, prospect.sentinel_ms, (target.percentile,), target.max_noise_floor)
