"""A campaign as a timing kit, and the table that its result gives."""

from pathlib import Path

from pipeline.artifacts.latency_table import LatencyTable
from pipeline.latency.campaign import Campaign, make_table, model_groups
from pipeline.latency.kit import Kit, make_device, read_kit
from pipeline.latency.measure import Effort

_MOST_BYTES = 300_000_000  # of weights held together on a target that may be small


def campaign_kit(campaign: Campaign, effort: Effort, threads: int, batch: int) -> Kit:
    """Everything that a campaign times."""
    groups = model_groups(campaign, make_device(batch), _MOST_BYTES)
    return Kit({"campaign": campaign.record()}, groups, effort, threads, batch, "profile")


def read_campaign_kit(path: Path, campaign: Campaign) -> LatencyTable:
    """The table of the machine that measured the campaign's kit."""
    result = read_kit(path, {"campaign": campaign.record()})
    return make_table(campaign, result.fingerprint, result.journal.measurement())
