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
from pipeline.search.architecture import ArchitectureGradient, ArchitectureGradients, Group, JudgedGroup, SearchDiverged
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

_GAP_IMAGES, _GAP_NETWORKS = 512, 4
MOST_LOOKS = 25
"""Of the guards in a search: on few images an epoch takes no longer than one of them."""
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
        self._fair_size = fair_size(skeleton.space)
        self.warmup_epochs = int(config.warmup_share * config.epochs)
        steps = self.total_steps - self.warmup_epochs * self.train.per_epoch
        self.inner_steps = inner_steps(config, steps)
        self.architecture_steps = steps // self.inner_steps
        self.state: SearchState = start_state(config, supernet, compute.seed, self.architecture_steps)
        normalize = Normalization(data.mean, data.std, device, compute.channels_last, skeleton.resolution)
        self.losses = Losses(supernet, constraint, config.weight_decay, normalize)
        self.gradients = ArchitectureGradients(config, self.losses, self.state.alphas)

    @property
    def steps_per_operation(self) -> int:
        """Weight steps whose network has an operation on its edge; all where it mixes, or weights are shared.

        Where a cell keeps some of its edges only (DARTS: 8 of 14), steps that leave the edge out are counted, too.
        """
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

    @property
    def at_look(self) -> bool:
        """At the end of an epoch that the guards look at: of each, or of so few that looks take little time."""
        return self.at_epoch_end and (self.epoch % self._epochs_of_a_look == 0 or self.finished)

    @property
    def _epochs_of_a_look(self) -> int:
        return -(-self.config.epochs // MOST_LOOKS)

    @property
    def looked_batches(self) -> int:
        """Batches that all looks run through a network, each through those that stand for the mixture and one more."""
        looks = -(-self.config.epochs // self._epochs_of_a_look)
        return looks * self._batches_of_a_look * (1 + max(1, min(_GAP_NETWORKS, self.group_size)))

    @property
    def _batches_of_a_look(self) -> int:
        return min(self.validation.per_epoch, max(1, _GAP_IMAGES // self.config.batch_size))

    def advance(self) -> StepReport | None:
        """One weight step; after a whole group of networks, another is judged; after every T-th, one architecture step.

        The latter goes by all groups since the last one, the newest at the present weights, and makes a report.
        """
        state, epoch, rate = self.state, self.epoch, self._weight_lr()
        self._draw_paths()
        batch = self.losses.prepare(self.train.batch(state.step))
        state.add_loss(self._step_weights(batch, rate))
        state.step += 1
        if epoch < self.warmup_epochs:
            return None
        is_round_over = state.step % self.inner_steps == 0
        if self.group_size and (is_round_over or state.step % self.group_size == 0):
            state.round_losses.append(self.gradients.judge(self._group(self._judged_so_far)))
        return self._step_architecture(batch, epoch, rate) if is_round_over else None

    @property
    def _judged_so_far(self) -> int:
        return len(self.state.network_losses) + len(self.state.round_losses)

    def _draw_paths(self) -> None:
        """Those of the present step's mixture, whenever it is reached: a resumed search draws the same."""
        if self.config.paths == "mixture":
            self.losses.draw_paths(self._detached(), (self.seed << 32) + self.state.step)

    def _judged(self, number: int) -> list[Genotype]:
        """The fair group of networks that is judged as the `number`-th; none where the search mixes."""
        if self.config.paths == "mixture":
            return []
        return draw_fair_group(self.state.supernet.space, (self.seed, _JUDGED, number))

    @property
    def judged_groups(self) -> int:
        """Groups of networks that are judged for an architecture step; none where the search mixes."""
        return -(-self.inner_steps // self.group_size) if self.group_size else 0

    @property
    def group_size(self) -> int:
        """Networks of a group; 0 where the search mixes."""
        return 0 if self.config.paths == "mixture" else self._fair_size

    @property
    def implicit_networks(self) -> int:
        """Networks that the implicit part of an architecture step is taken of; a mixture counts as one."""
        return max(1, min(self.config.implicit_networks, self.group_size))

    def judged_networks(self) -> JudgedNetworks:
        """What was seen of single networks for every architecture step."""
        groups = [self._judged(number) for number in range(len(self.state.network_losses))]
        return JudgedNetworks(self.state.supernet.space, groups, self.state.network_losses, self.steps_per_operation)

    def _trained_network(self) -> list[Genotype]:
        """The network whose turn it is, of an endless row of fair groups: the same whenever it is asked for."""
        if self.config.paths == "mixture":
            return []
        number, place = divmod(self.state.step, self._fair_size)
        return [draw_fair_group(self.state.supernet.space, (self.seed, _TRAINED, number))[place]]

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

    def _group(self, number: int) -> Group:
        """The `number`-th group, and the validation batches that it is judged by as one."""
        count = self.config.validation_batches
        drawn = [self.validation.batch(count * number + i) for i in range(count)]
        images = self.losses.prepare(Batch(*map(torch.cat, zip(*drawn, strict=True))))
        return Group(images, self._judged(number))

    def _step_architecture(self, train_batch: Batch, epoch: int, rate: float) -> StepReport:
        state, limits = self.state, self.constraint.limits
        first = len(state.network_losses)
        judged = [JudgedGroup(self._judged(first + place), losses) for place, losses in enumerate(state.round_losses)]
        group = self._group(self._judged_so_far - 1 if judged else state.alpha_step)
        progress = Progress(state.alpha_step, sum(state.losses) / len(state.losses))
        found = self.gradients.compute(train_batch, group, judged, state.penalty, rate, progress)
        for alpha, plain, part, added in zip(
            state.alphas, state.unpenalized, found.gradient, found.penalty, strict=True
        ):
            alpha.grad, plain.grad = part + added, part
        state.alpha_optimizer.step()
        state.alpha_optimizer.zero_grad(set_to_none=True)
        state.alpha_step += 1
        state.first_order_fallbacks += found.is_first_order
        state.keep_round()
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
        images = (self.losses.prepare(self.validation.fixed_batch(index)) for index in range(self._batches_of_a_look))
        networks = self._judged(0)[:_GAP_NETWORKS]
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
        return self.gradients.check(train, Group(validation, self._judged(0)), self._weight_lr())
