"""Algorithm 1 of iDARTS under the constrained objective: T steps on the weights, then one on the architecture."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.artifacts.judged_networks import JudgedNetworks
from pipeline.config import ComputeConfig
from pipeline.data import Batch, ImageData
from pipeline.data.normalization import Normalization
from pipeline.errors import UserError
from pipeline.resumable.ranks import average
from pipeline.search.architecture import ArchitectureGradient, ArchitectureGradients, BatchPair, SearchDiverged
from pipeline.search.expectation import draw_fair_group, fair_size
from pipeline.search.guards import ArchitectureReport, Gap, measure_gap, report_architecture
from pipeline.search.losses import Losses
from pipeline.search.methods import Progress, inner_steps
from pipeline.search.objective import Constraint, adapt_penalty
from pipeline.search.state import Best, SearchState, start_state
from pipeline.search_config import SearchConfig
from pipeline.space.genotype import Genotype
from pipeline.space.score import edge_weights
from pipeline.space.skeleton import Skeleton
from pipeline.space.supernet import Supernet
from pipeline.training.stream import Stream

_GAP_IMAGES = 512
_TRAINED, _JUDGED = 0, 1  # groups of networks for weight steps, and for architecture steps


@dataclass(frozen=True)
class StepReport:
    """One architecture step, as a line of the history holds it."""

    epoch: int
    train_loss: float
    validation_loss: float
    expected: dict[str, float]
    penalty_lambda: float
    weight_lr: float
    gradient: ArchitectureGradient

    def record(self) -> dict[str, Any]:
        found = self.gradient
        return {
            "epoch": self.epoch,
            "train_loss": self.train_loss,
            "validation_loss": self.validation_loss,
            **{f"expected_{name}": value for name, value in self.expected.items()},
            "penalty_lambda": self.penalty_lambda,
            "weight_lr": self.weight_lr,
            "gamma": found.gamma,
            "gamma_halvings": found.halvings,
            "first_order_fallback": found.is_first_order,
            "hypergradient": asdict(found.diagnostics),
        }


@dataclass(frozen=True)
class EpochReport:
    """The guards at the end of an epoch."""

    epoch: int
    log_objective: float
    first_order_fallbacks: int
    """Architecture steps so far whose solve missed, so that they took the first-order gradient."""
    architecture: ArchitectureReport
    gap: Gap

    def record(self) -> dict[str, Any]:
        gap = asdict(self.gap)
        drop = self.gap.soft_accuracy - self.gap.selected_accuracy
        return {
            "epoch": self.epoch,
            "log_objective": self.log_objective,
            "first_order_fallbacks": self.first_order_fallbacks,
            **self.architecture.record(),
            **gap,
            "discretization_gap": drop,
        }


class Search:
    """A search that is advanced step by step and can be saved and restored between any two."""

    def __init__(
        self,
        config: SearchConfig,
        compute: ComputeConfig,
        data: ImageData,
        skeleton: Skeleton,
        constraint: Constraint,
        device: torch.device,
    ) -> None:
        self.config, self.constraint, self.seed = config, constraint, compute.seed
        torch.manual_seed(compute.seed)
        layout = torch.channels_last if compute.channels_last else torch.contiguous_format
        supernet = Supernet(skeleton).to(device, memory_format=layout)  # type: ignore[call-overload]
        self.train, self.validation = (
            Stream(
                images,
                config.batch_size,
                seed=2 * compute.seed + part,
                augment=data.config.augment,
                workers=compute.workers,
                device=device,
            )
            for part, images in enumerate((data.train, data.validation))
        )
        self.total_steps = config.epochs * self.train.per_epoch
        self.inner_steps = inner_steps(config)
        self._fair_size = fair_size(skeleton.space)
        self.warmup_epochs = int(config.warmup_share * config.epochs)
        self.architecture_steps = (self.total_steps - self.warmup_epochs * self.train.per_epoch) // self.inner_steps
        self.state: SearchState = start_state(config, supernet, compute.seed, self.architecture_steps)
        normalize = Normalization(data.mean, data.std, device, compute.channels_last, skeleton.resolution)
        self.losses = Losses(supernet, constraint, config.weight_decay, normalize)
        self.gradients = ArchitectureGradients(config, self.losses, self.state.alphas)

    @property
    def steps_per_operation(self) -> int:
        """Weight steps that an operation of an edge takes part in; all where it mixes, or weights are shared."""
        shared = self.config.paths == "mixture" or all(kind.nested for kind in self.state.supernet.space.kinds)
        return self.total_steps // (1 if shared else self._fair_size)

    def require_steps(self) -> None:
        """Refuse a search that would end without a single step on the architecture."""
        warmup_steps = self.warmup_epochs * self.train.per_epoch
        if self.total_steps // self.inner_steps == warmup_steps // self.inner_steps:
            raise UserError(
                f"[search] epochs = {self.config.epochs} are {self.total_steps} steps, and with inner_steps = "
                f"{self.inner_steps} after a warm-up of {self.warmup_epochs} epochs none is left for the architecture; "
                "raise epochs, or lower inner_steps, warmup_share or batch_size"
            )

    def _detached(self) -> list[Tensor]:
        return [alpha.detach() for alpha in self.state.alphas]

    @property
    def epoch(self) -> int:
        """The epoch of the next step."""
        return self.state.step // self.train.per_epoch

    @property
    def finished(self) -> bool:
        return self.state.step >= self.total_steps

    @property
    def at_epoch_end(self) -> bool:
        return self.state.step % self.train.per_epoch == 0

    def advance(self) -> StepReport | None:
        """One weight step; after every T-th, one architecture step, which makes a report."""
        state, epoch, rate = self.state, self.epoch, self._weight_lr()
        self._draw_paths()
        batch = self.losses.prepare(self.train.batch(state.step))
        state.add_loss(self._step_weights(batch, rate))
        state.step += 1
        if state.step % self.inner_steps or epoch < self.warmup_epochs:
            return None
        return self._step_architecture(batch, epoch, rate)

    def _draw_paths(self) -> None:
        """Those of the present step's mixture, whenever it is reached: a resumed search draws the same."""
        if self.config.paths == "mixture":
            self.losses.draw_paths(self._detached(), (self.seed << 32) + self.state.step)

    def _network(self, purpose: int, index: int) -> Genotype:
        """A network of an endless row of fair groups, the same whenever it is asked for."""
        number, place = divmod(index, self._fair_size)
        return draw_fair_group(self.state.supernet.space, (self.seed, purpose, number))[place]

    def _judged(self, alpha_step: int) -> list[Genotype]:
        """The networks of an architecture step: the next ones in the row; none where the search mixes."""
        size = self.judged_at_once
        return [self._network(_JUDGED, size * alpha_step + place) for place in range(size)]

    @property
    def judged_at_once(self) -> int:
        """Networks that an architecture step judges; 0 where the search mixes."""
        return 0 if self.config.paths == "mixture" else min(self.config.judged_networks, self._fair_size)

    def judged_networks(self) -> JudgedNetworks:
        """What was seen of single networks at every architecture step."""
        groups = [self._judged(number) for number in range(len(self.state.network_losses))]
        return JudgedNetworks(self.state.supernet.space, groups, self.state.network_losses)

    def _trained_network(self) -> list[Genotype]:
        """The network whose turn it is."""
        return [] if self.config.paths == "mixture" else [self._network(_TRAINED, self.state.step)]

    def _weight_lr(self) -> float:
        low, high = self.config.weight_lr_min, self.config.weight_lr
        return low + (high - low) * (1 + math.cos(math.pi * self.state.step / self.total_steps)) / 2

    def _step_weights(self, batch: Batch, rate: float) -> float:
        # weights off a mixture's sampled paths rest: without a gradient neither decay nor momentum moves them; those
        # that a fair network leaves out have a gradient of 0, as decay and momentum go on until their turn
        optimizer, weights = self.state.weight_optimizer, self.losses.supernet.parameters_on(self.losses.paths)
        loss = self.losses.cross_entropy(batch, self._detached(), self._trained_network())
        gradients = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
        for weight, gradient in zip(weights, average(gradients), strict=True):
            weight.grad = gradient
        nn.utils.clip_grad_norm_(weights, self.config.clip)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = float(average([loss.detach()])[0])
        if not math.isfinite(value):
            raise SearchDiverged(
                f"the training loss became {value} at step {self.state.step}; lower [search] weight_lr "
                f"(now {self.config.weight_lr:g})"
            )
        return value

    def _judging_batch(self) -> Batch:
        """The validation batches of the present architecture step as one."""
        count = self.config.validation_batches
        drawn = [self.validation.batch(count * self.state.alpha_step + i) for i in range(count)]
        return self.losses.prepare(Batch(*map(torch.cat, zip(*drawn, strict=True))))

    def _step_architecture(self, train_batch: Batch, epoch: int, rate: float) -> StepReport:
        state, limits = self.state, self.constraint.limits
        pair = BatchPair(train_batch, self._judging_batch(), self._judged(state.alpha_step))
        progress = Progress(state.alpha_step, sum(state.losses) / len(state.losses))
        found = self.gradients.compute(pair, state.penalty, rate, progress)
        for alpha, plain, part, added in zip(
            state.alphas, state.unpenalized, found.gradient, found.penalty, strict=True
        ):
            alpha.grad, plain.grad = part + added, part
        state.alpha_optimizer.step()
        state.alpha_optimizer.zero_grad(set_to_none=True)
        state.alpha_step += 1
        state.first_order_fallbacks += found.is_first_order
        if found.network_losses:
            state.network_losses.append(found.network_losses)
        with torch.no_grad():
            expected = [float(value) for value in self.constraint.expected(state.alphas)]
        missed = any(value > limit.at_most for value, limit in zip(expected, limits, strict=True))
        state.penalty = adapt_penalty(state.penalty, missed, self.config.penalty_rate, self.config.penalty)
        return StepReport(
            epoch=epoch,
            train_loss=state.take_mean_loss(),
            validation_loss=found.validation_loss,
            expected={limit.unit: value for value, limit in zip(expected, limits, strict=True)},
            penalty_lambda=state.penalty,
            weight_lr=rate,
            gradient=found,
        )

    def end_epoch(self) -> EpochReport:
        """The guards, and the best architecture so far."""
        state, ended = self.state, self.epoch - 1
        architecture = report_architecture(self.constraint, state.alphas, state.unpenalized)
        detached = self._detached()
        weights = edge_weights(detached, self.constraint.prices, self.constraint.scale)
        batches = min(self.validation.per_epoch, max(1, _GAP_IMAGES // self.config.batch_size))
        images = (self.losses.prepare(self.validation.fixed_batch(index)) for index in range(batches))
        networks = self._judged(0)
        gap = measure_gap(state.supernet, weights, architecture.genotype, images, networks)
        objective = self.constraint.log_objective(gap.soft_loss, detached, self.config.penalty)
        if ended >= self.warmup_epochs and (state.best is None or objective < state.best.log_objective):
            state.best = Best(objective, ended, [alpha.clone() for alpha in detached], state.copy_unpenalized())
        state.collapsed_epochs = state.collapsed_epochs + 1 if architecture.collapse else 0
        return EpochReport(ended, objective, state.first_order_fallbacks, architecture, gap)

    def check_hypergradient(self) -> float | None:
        """The cosine of the indirect part with the reference's, at the present state."""
        self._draw_paths()
        train, validation = (self.losses.prepare(stream.fixed_batch(0)) for stream in (self.train, self.validation))
        pair = BatchPair(train, validation, self._judged(0))
        return self.gradients.check(pair, self._weight_lr())
