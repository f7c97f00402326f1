"""Where the weights of a training start: at random, from the search, or from another run of the same network."""

from pipeline.artifacts.alphas import SupernetWeights
from pipeline.artifacts.trained import Trained
from pipeline.console import say
from pipeline.errors import UserError
from pipeline.space.network import Network
from pipeline.space.shared_weights import Shared, take_from_network, take_from_supernet
from pipeline.stages.context import Context
from pipeline.stages.named_files import start_file


def set_start(context: Context, network: Network) -> str:
    """Put the weights that [retrain] start names into the network, and say how many there were; for metrics.json."""
    start, path = context.config.retrain.start, start_file(context)
    if path is None:
        return start
    if not path.is_file():
        command = context.run.call("search") if start == "supernet" else f"retrain --run {start.partition(':')[2]}"
        raise UserError(f"[retrain] start = {start!r}: there is no {path}; run `pipeline {command}` first")
    shared = _from_supernet(context, network) if start == "supernet" else _from_run(context, network, start)
    told = f"{start}, {shared.share:.0%} of the weights"
    say(f"starting from {told}; the others are random")
    return told


def _from_supernet(context: Context, network: Network) -> Shared:
    supernet = context.read(SupernetWeights).build(context.search_skeleton)
    ours, theirs = network.skeleton.channels, supernet.skeleton.channels
    if ours != theirs:  # what agrees then does so by accident, at another depth
        raise UserError(
            f"[retrain] start = 'supernet', but the supernet has {theirs} channels and the network {ours}, so their "
            f"shapes differ; search with [search] channels = {ours}, or set start = 'random'"
        )
    return take_from_supernet(network, supernet)


def _from_run(context: Context, network: Network, start: str) -> Shared:
    path = start_file(context)
    assert path is not None
    other = Trained.read(path, f"retrain --run {start.partition(':')[2]}").network
    theirs, ours = other.skeleton, network.skeleton
    same_size = (theirs.cells, theirs.channels) == (ours.cells, ours.channels)
    if other.genotype.canonical() != network.genotype.canonical() or not same_size:
        reason = "another genotype" if same_size else f"{theirs.cells} cells and {theirs.channels} channels"
        raise UserError(
            f"[retrain] start = {start!r} has {reason}, so its weights mean nothing here; train its genotype on this "
            f"data with [retrain] genotype and its [target] cells and channels, or start = 'random'"
        )
    return take_from_network(network, other)
