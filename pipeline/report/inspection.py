"""`pipeline inspect`: what a genotype costs, by itself or as a run chose it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.network import ChosenNetwork
from pipeline.config import Config, TargetConfig
from pipeline.console import counted, say
from pipeline.errors import UserError
from pipeline.fingerprint import Fingerprint
from pipeline.latency.budget_rule import Measured
from pipeline.latency.predictor import Prediction, Predictor
from pipeline.latency.table import find_table, table_name
from pipeline.latency.target import TargetMachine
from pipeline.rundir import RunDir, refuse_misspelt
from pipeline.space.genotype import Genotype
from pipeline.space.genotype_file import read_genotype_file
from pipeline.space.plan import count_macs, count_params, plan_of
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named


@dataclass(frozen=True)
class Size:
    """The parts of a skeleton that were asked for; None keeps what the run, or the literature, has."""

    cells: int | None = None
    channels: int | None = None
    resolution: int | None = None
    classes: int | None = None
    in_channels: int | None = None

    def applied_to(self, skeleton: Skeleton) -> Skeleton:
        return replace(skeleton, **{name: value for name, value in vars(self).items() if value is not None})


@dataclass(frozen=True)
class Inspection:
    """A network with its latency; what was not asked for is None. A run has a certificate of the network it chose."""

    skeleton: Skeleton
    genotype: Genotype
    predicted: Prediction | None = None
    measured: Measured | None = None
    certificate: Certificate | None = None

    def record(self) -> dict[str, Any]:
        """As `pipeline inspect --json` prints it."""
        skeleton, predicted = self.skeleton, self.predicted
        return {
            "budget_ms": None if self.certificate is None else self.certificate.budget_ms,
            "space": skeleton.space,
            "cells": skeleton.cells,
            "channels": skeleton.channels,
            "resolution": skeleton.resolution,
            "classes": skeleton.classes,
            "params": count_params(skeleton, self.genotype),
            "macs": count_macs(skeleton, self.genotype),
            "predicted_ms": None if predicted is None else predicted.ms,
            "predicted_interval_ms": None if predicted is None else [predicted.low_ms, predicted.high_ms],
            **self._measurement(),
        }

    def _measurement(self) -> dict[str, Any]:
        """What was measured now, else what the certificate holds of this very network."""
        certificate = self.certificate
        if self.measured is not None:
            found = {"measured_ms": self.measured.record(), "noise_floor": self.measured.noise_floor}
            return {**found, "measured_by": "this command"}
        if certificate is None or certificate.measured_ms is None or certificate.skeleton != self.skeleton:
            return {"measured_ms": None, "noise_floor": None, "measured_by": None}
        found = {"measured_ms": certificate.measured_ms.model_dump(), "noise_floor": certificate.noise_floor}
        setup = f"{counted(certificate.device.threads, 'thread')}, batch {certificate.device.batch}"
        return {**found, "measured_by": f"the certificate, before training ({setup})"}


def inspect_file(path: Path, size: Size, config: Config, project: Path, measure: bool) -> Inspection:
    """The network of a genotype file: in the skeleton that the file states, or at the size of the literature."""
    genotype, stated = read_genotype_file(path)
    skeleton = stated or space_named(genotype.space).literature
    return _inspect(size.applied_to(skeleton), genotype, config, project, measure)


def inspect_run(run: RunDir, size: Size, config: Config, measure: bool) -> Inspection:
    """The network that a run has chosen, for the budget that the run is taken with."""
    refuse_misspelt(run)
    command = f"discretize{run.flag}"
    chosen = ChosenNetwork.read(run.genotype, command)
    certificate = Certificate.read(run.certificate, command).require_of(chosen) if run.certificate.is_file() else None
    found = _inspect(size.applied_to(chosen.skeleton), chosen.genotype, config, run.project, measure)
    return replace(found, certificate=certificate)


def _inspect(skeleton: Skeleton, genotype: Genotype, config: Config, project: Path, measure: bool) -> Inspection:
    """On the machine of [target]."""
    plan_of(skeleton)
    machine = TargetMachine.of(config.target, config.profile.backend)
    predictor = _find_predictor(skeleton, config.target, project, machine.device.fingerprint)
    predicted = None if predictor is None else predictor.predict(genotype)
    return Inspection(skeleton, genotype, predicted, machine.time_network(skeleton, genotype) if measure else None)


def _find_predictor(skeleton: Skeleton, target: TargetConfig, project: Path, here: Fingerprint) -> Predictor | None:
    """A table that was named must do; the machine's own is used if it knows the skeleton."""
    tables, named = project / "latency_tables", project / target.table if target.table else None
    if named is None and not (tables / table_name(here, skeleton.space)).exists():
        return None
    table = find_table(tables, here, skeleton.space, named, target.allow_mismatch)
    try:
        return Predictor(table, skeleton)
    except UserError as error:
        if named is not None:
            raise
        say(f"no prediction: {error}")
        return None
