"""Training a network for a number of epochs, whatever happens on the way.

Killed anywhere, it goes on from the last checkpoint with the same bits; a loss that is not finite takes it back to the
last whole epoch at half the rate, twice; out of memory, interruption and dead peers end it with a sentence.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import torch
from torch import Tensor, nn

from pipeline.bilevel import HypergradientError
from pipeline.console import progress_bar, say
from pipeline.data import Batch, ImageSet, batches, count_batches
from pipeline.errors import PromiseBroken, UserError
from pipeline.resumable.checkpoint import State
from pipeline.resumable.history import History
from pipeline.resumable.interruption import Interruption
from pipeline.resumable.ranks import average_, broadcast, is_writer, share_of, world
from pipeline.training.distillation import make_distillation
from pipeline.training.hyper_pass import HyperPass, make_learner
from pipeline.training.job import FirstEpoch, Job, Outcome, Position
from pipeline.training.keeper import Keeper, Restored
from pipeline.training.measures import predict
from pipeline.training.precision import Precision, choose_precision
from pipeline.training.step import Model, Stepper

_ROLL_BACKS = 2
_RATE_AFTER_ROLL_BACK = 0.5
_STEPS_PER_ENTRY = 50


class NotFiniteError(Exception):
    """The loss of a step, or the direction of a hyper step, is not a number; nothing was updated."""

    def __init__(self, reason: str, section: str, rate: float) -> None:
        super().__init__(reason)
        self.advice = f"lower [{section}] lr (now {rate:g})"


def train(model: Model, job: Job) -> Outcome:
    """Train from the start, or from where the last process stopped; all ranks return the same weights."""
    with ExitStack() as stack:
        trainer = Trainer(model, job, stack)
        while trainer.position.epoch < job.config.epochs:
            try:
                trainer.run_epoch()
            except NotFiniteError as error:
                trainer.roll_back(str(error), error.advice)
        trainer.stop_if_asked()
        return trainer.outcome()


def _keeper(job: Job) -> Keeper:
    return Keeper(job.checkpoints, job.config_hash, job.config.checkpoint_s, job.clock)


class Trainer:
    """The state of a training, and what moves it."""

    def __init__(self, model: Model, job: Job, stack: ExitStack) -> None:
        self.model, self.job = model, job
        self.interruption = stack.enter_context(Interruption())
        size = world().size
        self.share = share_of(min(job.config.batch_size, max(len(job.train) // size, 1) * size))
        _check_parts(self.share, job.config.accumulate)
        self.steps_per_epoch = count_batches(job.train, self.share, world=size, drop_last=True)
        self.keeper = _keeper(job)
        restored = self.keeper.newest()
        self.stepper = Stepper(
            model,
            job.config,
            job.normalize,
            choose_for(model, job, self.share) if restored is None else _known(restored, job.device),
            job.classes,
            self.steps_per_epoch,
            job.seed,
            make_learner(job),
            make_distillation(job),
        )
        learner = self.stepper.learner
        self.hyper = None if learner is None else HyperPass(model, job, self.stepper, learner)
        self.position, self._first_epoch, self._judged = Position(), job.first_epoch, ""
        if restored is not None:
            self._load(restored)
        self.history = stack.enter_context(
            History(job.history, self.position.step if restored else -1, job.tensorboard, writes=is_writer())
        )
        self._announce(resumed=restored is not None)
        self.bar = stack.enter_context(progress_bar()) if is_writer() else progress_bar()
        total = job.config.epochs * self.steps_per_epoch
        self.task = self.bar.add_task(job.section, total=total, completed=self.position.step, note="")

    def _announce(self, resumed: bool) -> None:
        self.history.append(self.position.step, event="resumed" if resumed else "started")
        if not resumed:
            self.keeper.save(self.position, self.stepper, whole_epoch=True)
        elif is_writer():
            say(f"going on from epoch {self.position.epoch + 1}, step {self.position.step}")

    def _load(self, restored: Restored) -> None:
        self.position = restored.position
        self.stepper.load(restored.state)

    def run_epoch(self) -> None:
        """The rest of the epoch that the position is in."""
        if self.hyper is not None:
            self._learn_about_images(self.hyper)
        started, start, whole = self.job.clock(), self.position.step, self.position.batch == 0
        self.model.set_drop_path(self._drop_path())
        for batch in self._batches():
            self._step(batch)
        elapsed_s = self.job.clock() - started
        images = (self.position.step - start) * self.share * world().size
        top1 = self.position.top1_sum / self.steps_per_epoch
        self._end_epoch(images / elapsed_s if elapsed_s > 0 else None)
        if whole:
            self._tell(self.job.clock() - started, top1)

    def _tell(self, seconds: float, train_top1: float) -> None:
        """What the first whole epoch lets one expect, once."""
        tell, self._first_epoch = self._first_epoch, None
        if tell is not None and is_writer():
            tell(FirstEpoch(self.position.epoch, self.job.config.epochs, seconds, train_top1))

    def _learn_about_images(self, hyper: HyperPass) -> None:
        """The rest of the hyper pass before the epoch, unless it is a plain one or λ is frozen."""
        epoch, learner = self.position.epoch, hyper.learner
        if not learner.course.is_plain(epoch) and not learner.guard.frozen:
            for number in range(self.position.hyper_batch, hyper.steps):
                self._hyper_step(hyper, number)
        learner.begin_epoch(epoch)

    def _hyper_step(self, hyper: HyperPass, number: int) -> None:
        at = self.position
        try:
            gap = hyper.step(at.epoch, number)
        except HypergradientError as error:
            reason = f"hyper step {number + 1} before epoch {at.epoch + 1} failed ({error})"
            raise NotFiniteError(reason, "autodo", self.job.autodo.lr) from None
        self.position = replace(at, hyper_batch=number + 1, gap_sum=at.gap_sum + gap)
        self.bar.update(self.task, completed=at.step, note=f"hyper step {number + 1} of {hyper.steps}")
        if self._anyone_asked():
            self.keeper.save(self.position, self.stepper)
            raise self.interruption.stop(f"epoch {at.epoch + 1}, hyper step {number + 1}")
        if self.keeper.is_due():
            self.keeper.save(self.position, self.stepper)

    def _batches(self) -> Iterator[Batch]:
        return batches(
            self.job.train,
            self.share,
            seed=self.job.seed,
            epoch=self.position.epoch,
            rank=world().rank,
            world=world().size,
            augment=self.job.augment,
            workers=self.job.workers,
            device=self.job.device,
            drop_last=True,
            start_batch=self.position.batch,
        )

    def _step(self, batch: Batch) -> None:
        at = self.position
        done = self.stepper.step(batch, at.step, stop=self.interruption.requested)
        if not math.isfinite(done.loss):
            reason = f"the loss of step {at.step + 1} in epoch {at.epoch + 1} is {done.loss}"
            raise NotFiniteError(reason, self.job.section, self.job.config.lr)
        self.position = replace(
            at,
            step=at.step + 1,
            batch=at.batch + 1,
            loss_sum=at.loss_sum + done.head_loss,
            top1_sum=at.top1_sum + done.top1,
        )
        if self.position.step % _STEPS_PER_ENTRY == 0:
            self.history.append(self.position.step, epoch=at.epoch + 1, loss=done.loss, lr=self._rate())
        note = f"batch loss {done.loss:.3f} top-1 {done.top1:.1%}{self._judged}"
        self.bar.update(self.task, completed=self.position.step, note=note)
        if done.stop:
            self.interruption.hold()
            self.keeper.save(self.position, self.stepper)
            raise self.interruption.stop(f"epoch {at.epoch + 1}, step {self.position.step}")
        if self.keeper.is_due():
            self.keeper.save(self.position, self.stepper)

    def _end_epoch(self, images_per_s: float | None) -> None:
        at = self.position
        self.position = replace(at, epoch=at.epoch + 1, batch=0, hyper_batch=0, loss_sum=0.0, top1_sum=0.0, gap_sum=0.0)
        figures = {} if self.job.holdout is None else self._judge(self.job.holdout)
        if self.hyper is not None:
            figures |= self._describe_learning(self.hyper, at, figures.get("holdout_top1"))
        self.history.append(
            at.step,
            epoch=at.epoch + 1,
            train_loss=at.loss_sum / self.steps_per_epoch,
            train_top1=at.top1_sum / self.steps_per_epoch,
            lr=self._rate(),
            drop_path=self.job.config.drop_path * at.epoch / self.job.config.epochs,
            images_per_s=images_per_s,
            **figures,
        )
        self.keeper.save(self.position, self.stepper, whole_epoch=True)

    def _describe_learning(self, hyper: HyperPass, at: Position, holdout_top1: float | None) -> dict[str, float]:
        """Note early losses after a plain epoch, freeze λ where the holdout fell; figures of the hyper pass."""
        learner, epochs = hyper.learner, self.position.epoch
        if learner.course.is_plain(at.epoch):
            hyper.observe()
        if holdout_top1 is not None and epochs >= self.job.autodo.start_epoch and learner.judge(holdout_top1):
            say(
                f"the holdout accuracy stayed 2 points below its {learner.guard.start:.2%} of epoch "
                f"{self.job.autodo.start_epoch}: what is learned of the images is frozen as it was at its best"
            )
        if not at.hyper_batch:
            return {}
        return {"gradient_gap": at.gap_sum / at.hyper_batch, "autodo_lr": learner.course.rate(at.epoch)}

    def _judge(self, holdout: ImageSet) -> dict[str, float]:
        """How good what would be deployed is on images that are not trained on; the best is kept on disk."""
        answers = predict(self.stepper.deployed, holdout, self.job.normalize, self.job.workers)
        top1 = float((answers.logits.argmax(1) == answers.labels).double().mean())
        loss = float(nn.functional.cross_entropy(answers.logits.double(), answers.labels))
        if top1 > self.position.best_top1:
            self.position = replace(self.position, best_top1=top1)
            self.keeper.save_best(self.position.step, dict(self.stepper.deployed.state_dict()))
        self._judged = f" · holdout {top1:.1%}"
        return {"holdout_top1": top1, "holdout_loss": loss}

    def roll_back(self, reason: str, advice: str) -> None:
        """To the last whole epoch, at a lower rate; the third time is one too many."""
        roll_backs = self.position.roll_backs + 1
        if roll_backs > _ROLL_BACKS:
            raise PromiseBroken(
                f"{reason}, even at {self.stepper.rate_scale:g} of the learning rate; {advice} and delete "
                f"{self.keeper.folder} to start anew"
            )
        restored = self.keeper.last_epoch()
        if restored is None:
            raise UserError(f"{reason}, and no whole epoch is left in {self.keeper.folder} to go back to")
        self._load(restored)
        self.position = replace(self.position, roll_backs=roll_backs)
        self.stepper.rate_scale = _RATE_AFTER_ROLL_BACK**roll_backs
        self.keeper.save(self.position, self.stepper, whole_epoch=True)
        self.history.cut_back(self.position.step)
        self.history.append(self.position.step, event="rolled back", rate_scale=self.stepper.rate_scale)
        if is_writer():
            rate = f"{self.stepper.rate_scale:g} of the learning rate"
            say(f"{reason}: back to the start of epoch {self.position.epoch + 1}, at {rate}")

    def stop_if_asked(self) -> None:
        """A signal during the very last step is heard too; the last epoch is saved by then."""
        if self._anyone_asked():
            raise self.interruption.stop("all epochs are done and")

    def _anyone_asked(self) -> bool:
        """Whether any rank was interrupted; all ranks must ask."""
        asked = torch.tensor([float(self.interruption.requested)], device=self.job.device)
        average_([asked])
        return asked.item() > 0

    def outcome(self) -> Outcome:
        """The weights as they are now, and those to deploy."""
        kind = "last" if self.stepper.average is None else "averaged"
        last, deployed = copied(self.model.module.state_dict()), copied(self.stepper.deployed.state_dict())
        best = None if self.job.holdout is None else self.keeper.best()
        if best is not None:
            kind, deployed = f"{kind}, best epoch", best
        learned = None if self.hyper is None else self.hyper.learner.result()
        return Outcome(deployed, last, kind, self.stepper.precision.name, self.history.entries, learned)

    def _drop_path(self) -> float:
        return self.job.config.drop_path * self.position.epoch / self.job.config.epochs

    def _rate(self) -> float:
        return float(self.stepper.optimizer.param_groups[0]["lr"])


def _check_parts(share: int, accumulate: int) -> None:
    """Refuse parts of one image, which leave BatchNorm nothing to normalize by."""
    if share // accumulate < 2:
        most = max(share // 2, 1)
        raise UserError(
            f"[retrain] accumulate = {accumulate} cuts the {share} images of a step into parts of one, and BatchNorm "
            f"needs two; set it to {most} at most, or raise batch_size"
        )


def copied(weights: State) -> State:
    """The weights, safe from further training."""
    return {name: value.detach().cpu().clone() for name, value in weights.items()}


def _known(restored: Restored, device: torch.device) -> Precision:
    return Precision(restored.state["precision"], device)


def choose_for(model: Model, job: Job, images: int) -> Precision:
    """The precision of a new training, the same on all ranks; trial steps leave the weights as they were."""
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    trial = torch.rand(images, *job.train[0][0].shape, device=job.device)

    def run_step(precision: Precision) -> None:
        with precision.autocast():
            loss: Tensor = model.forward(job.normalize(trial)).logits.float().square().mean()
        loss.backward()  # type: ignore[no-untyped-call]

    model.module.train()
    chosen = choose_precision(job.config.precision, job.device, run_step)
    model.module.zero_grad(set_to_none=True)
    model.module.load_state_dict(before)
    return Precision(broadcast(chosen.name), job.device)
