"""profile: times every site of the space on the target, calibrates on whole networks, and tests the prediction."""

from functools import partial
from pathlib import Path

from rich.table import Table

from pipeline.artifacts.latency_table import LatencyTable
from pipeline.config import Config
from pipeline.console import progress_bar, say, show
from pipeline.latency.campaign import Campaign
from pipeline.latency.campaign_kit import campaign_kit, read_campaign_kit
from pipeline.latency.measure import Device, Effort
from pipeline.latency.predictor import Predictor
from pipeline.latency.profiling import Profile, profile_device, store_table
from pipeline.latency.validity import describe_validation
from pipeline.memory import require_memory
from pipeline.report.pictures.latency import draw_costs, draw_predictions, save_picture
from pipeline.space.extremes import cheapest_genotype, costliest_genotype
from pipeline.space.footprint import probe_bytes
from pipeline.space.skeleton import Skeleton
from pipeline.space.spaces import space_named
from pipeline.stages.context import Context
from pipeline.stages.kits import write_with_bar
from pipeline.stages.tables import open_target, skeletons_of

_SLOWEST = 5
_US_PER_MS = 1000.0


def run(context: Context) -> None:
    """Write the latency table of the target device."""
    profile_on(context, open_target(context).device)


def profile_on(context: Context, device: Device) -> None:
    """The stage on any device."""
    skeletons = tuple(skeletons_of(context))
    with progress_bar() as bar:
        task = bar.add_task("profile", total=100, note="")
        profile = profile_device(
            device,
            campaign_of(context),
            _effort(context.config),
            context.run.tables,
            lambda share, note: bar.update(task, completed=round(100 * share), note=note),
            partial(_draw, skeletons=skeletons),
        )
    _report(profile, skeletons, context.config.target.max_noise_floor)


def write_kit(context: Context, folder: Path) -> None:
    """`profile --write-kit`: the campaign as a folder for a machine without torch."""
    target = context.config.target
    kit = campaign_kit(campaign_of(context), _effort(context.config), target.threads, target.batch)
    write_with_bar(kit._replace(command=f"profile{context.run.flag}"), folder)


def use_kit(context: Context, result: Path) -> None:
    """`profile --from-kit`: the table of the machine that measured the kit."""
    campaign = campaign_of(context)
    draw = partial(_draw, skeletons=campaign.skeletons)
    stored = store_table(read_campaign_kit(result, campaign), context.run.tables, draw)
    _report(stored, campaign.skeletons, context.config.target.max_noise_floor)
    say(f"next: pipeline search{context.run.flag} --table {_shown(stored.path)} --allow-mismatch --budget-ms X")


def campaign_of(context: Context) -> Campaign:
    """What the configuration asks to be timed: the target network in every size that selection may choose."""
    settings, skeletons = context.config.profile, tuple(skeletons_of(context))
    needed = probe_bytes(skeletons, settings.copies, context.config.target.batch)
    require_memory(needed, "timing all operations", "[target] channels, cells or batch, or [data] resolution")
    return Campaign(
        skeletons=skeletons,
        precisions=tuple(dict.fromkeys(settings.precision)),
        copies=settings.copies,
        calibration_networks=settings.calibration_networks,
        validation_networks=settings.validate_networks,
    )


def _effort(config: Config) -> Effort:
    return Effort(rounds=config.profile.rounds, extra_rounds=2 * config.profile.rounds)


def _warn(noise_floor: float, allowed: float) -> str:
    if noise_floor <= allowed:
        return ""
    return f"; [target] max_noise_floor allows {allowed:.1%}: as busy as this, the machine will certify nothing"


def _draw(table: LatencyTable, path: Path, skeletons: tuple[Skeleton, ...]) -> None:
    """Pictures beside a table."""
    for precision, column in table.precisions.items():
        for skeleton in skeletons:
            entry = column.entry(skeleton)
            if entry is not None:
                stem = f"{path.with_suffix('').name}__{_size(skeleton)}__{precision}"
                save_picture(draw_costs(column, skeleton), path.with_name(f"{stem}__costs.svg"))
                save_picture(draw_predictions(column, entry), path.with_name(f"{stem}__predictions.svg"))


def _size(skeleton: Skeleton) -> str:
    return f"{skeleton.cells}x{skeleton.channels}@{skeleton.resolution}px"


def _report(profile: Profile, skeletons: tuple[Skeleton, ...], allowed: float) -> None:
    """The slowest sites and the verdict on screen."""
    for precision, column in profile.table.precisions.items():
        for skeleton in skeletons:
            entry = column.entry(skeleton)
            if entry is not None:
                say(f"{_size(skeleton)} {precision}: the table is {describe_validation(entry.validation)}")
        say(f"{precision}: noise floor {column.noise_floor:.1%}{_warn(column.noise_floor, allowed)}")
    show(_slowest_sites(profile.table))
    for skeleton in skeletons:
        if "fp32" in profile.table.precisions:  # which a search goes by
            say(describe_range(profile.table, skeleton))
    if not profile.replaced:
        say(f"the new figures miss the validity gate; {profile.path}, which passed it, was kept")
    say(f"latency table: {profile.path}")


def describe_range(table: LatencyTable, skeleton: Skeleton) -> str:
    """What the fastest and the slowest network of a size are predicted to take: a budget belongs between them."""
    predictor, space = Predictor(table, skeleton), space_named(skeleton.space)
    costs, least = predictor.costs(), predictor.least_costs()
    fastest_ms, slowest_ms = least.of(cheapest_genotype(space, least)), costs.of(costliest_genotype(space, costs))
    return (
        f"networks of {skeleton.cells} cells × {skeleton.channels} channels take {fastest_ms:.3g} to {slowest_ms:.3g} "
        "ms (predicted p50): a budget between these leaves something to search for"
    )


def _shown(path: Path) -> Path:
    """As short as the shell takes it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _slowest_sites(table: LatencyTable) -> Table:
    rows = Table("slowest sites", *(f"{precision}, µs" for precision in table.precisions))
    columns = list(table.precisions.values())
    real = [key for key in columns[0].sites if not key.startswith("none/")]
    for key in sorted(real, key=lambda key: -columns[0].sites[key].p50_ms)[:_SLOWEST]:
        times = [column.sites.get(key) for column in columns]
        rows.add_row(key, *("–" if time is None else f"{time.p50_ms * _US_PER_MS:.1f}" for time in times))
    return rows
