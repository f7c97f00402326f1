"""Opening a run: pipeline.toml, the flags given to this run before, and the flags given now."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.artifacts.certificate import Certificate
from pipeline.config import Config
from pipeline.config_file import Overrides, read_config, render_config
from pipeline.console import say
from pipeline.errors import Interrupted, UserError
from pipeline.rundir import RunDir, budget_folders, budget_name, refuse_misspelt
from pipeline.space.spaces import space_named
from pipeline.stages import Stage
from pipeline.stages.context import Context
from pipeline.whole_files import read_json, write_json, write_text, writing


def open_run(config_path: Path, name: str, flags: Overrides, budget_ms: float | None = None) -> Context:
    """The context of a run. Flags win over flags of earlier commands of the same run, which win over the file.

    `budget_ms` takes the network of one of several budgets.
    """
    run = RunDir(config_path.absolute().parent, name)
    if budget_ms is not None:
        run = take_budget(run, budget_ms)
    given = {s: {k: v for k, v in values.items() if v is not None} for s, values in flags.items()}
    if "budget_ms" in given.get("target", {}):  # one budget, asked for now, and not those of before
        given["discretize"] = {"budgets_ms": [], **given.get("discretize", {})}
    earlier = _earlier_flags(run)
    merged = {s: {**earlier.get(s, {}), **given.get(s, {})} for s in {*earlier, *given}}
    config = read_config(config_path, merged)
    space_named(config.target.space)
    in_file = read_config(config_path, given)
    kept = [
        f"[{section}] {setting} = {value!r} (not {other!r})"
        for section, values in earlier.items()
        for setting, value in values.items()
        if setting not in given.get(section, {}) and (other := _value(in_file, section, setting)) != value
    ]
    if kept:
        say(
            f"earlier flags of the run {name!r} win over {config_path.name}: {', '.join(kept)}; "
            f"edit or delete {run.flags} to drop them"
        )
    return Context(config, run, {section: values for section, values in sorted(merged.items()) if values})


def _value(config: Config, section: str, setting: str) -> Any:
    return getattr(getattr(config, section, None), setting, None)


def take_budget(run: RunDir, budget_ms: float) -> RunDir:
    """The run with the network that `discretize` chose for this budget: the one it trains anyway, or another."""
    if run.certificate.is_file() and Certificate.read(run.certificate).budget_ms == budget_ms:
        return run
    own = replace(run, budget=budget_name(budget_ms))
    if own.certificate.is_file():
        return own
    refuse_misspelt(run)
    kept = (one for one in budget_folders(run.genotype.parent) if (one / run.certificate.name).is_file())
    chosen = sorted((one.name.removesuffix("ms") for one in kept), key=float)
    there = f" (there are {', '.join(chosen)} ms)" if chosen else ""
    raise UserError(
        f"no network was chosen for {budget_ms:g} ms{there}; `pipeline {run.call('discretize')} --budget-ms "
        f"{','.join([*chosen, f'{budget_ms:g}'])}` chooses one"
    )


def remember_flags(context: Context, stage: Stage | None = None) -> None:
    """Keep the flags of a command that was done for later commands of the run.

    Of a command under way they are kept once a `stage` has been made by one that is new: later commands must not take
    its result for outdated. A stage that no new flag is for says nothing of those that follow, which may be refused.
    """
    earlier = _earlier_flags(context.run)
    new = [
        (section, setting)
        for section, values in context.flags.items()
        for setting, value in values.items()
        if setting not in earlier.get(section, {}) or earlier[section][setting] != value
    ]
    if new and (stage is None or any(stage.depends_on(*one) for one in new)):
        write_json(context.run.flags, context.flags)


@contextmanager
def flags_of_first_attempt(context: Context) -> Iterator[None]:
    """Keep the flags from here on, so that a kill leaves them beside what was saved, which goes on with them alone.

    An interrupt leaves them as well. Any other end takes them back: a refusal changes nothing, and what is kept of a
    success is for `remember_flags` to say.
    """
    path = context.run.flags
    before = path.read_bytes() if path.is_file() else None
    remember_flags(context)
    try:
        yield
    except Interrupted:
        raise
    except BaseException:
        _restore(path, before)
        raise
    _restore(path, before)


@contextmanager
def settings_under_way(context: Context, checkpoints: Path) -> Iterator[None]:
    """Keep the settings of a stage from here on, for whoever looks at the run.

    A stage that is refused, or interrupted before it has saved anything, leaves those of before.
    """
    path = context.run.working_config
    before = path.read_bytes() if path.is_file() else None
    write_text(path, render_settings(context))
    try:
        yield
    except BaseException as error:
        if not (isinstance(error, Interrupted) and any(checkpoints.rglob("*.*"))):
            _restore(path, before)
        raise
    path.unlink(missing_ok=True)


def render_settings(context: Context) -> str:
    """All settings of a run, as a file that makes it again."""
    return render_config(context.config, f"The resolved configuration of the run {context.run.name}.")


def _restore(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    elif not path.is_file() or path.read_bytes() != content:
        with writing(path) as part:
            part.write_bytes(content)


def _earlier_flags(run: RunDir) -> dict[str, dict[str, Any]]:
    if not run.flags.is_file():
        return {}
    record = read_json(run.flags)
    if not isinstance(record, dict) or not all(isinstance(values, dict) for values in record.values()):
        raise UserError(f"{run.flags} is damaged; delete it")
    return record
