"""`pipeline compare`: the table of all networks and the sentence, for people and for programs."""

from rich import box
from rich.table import Table

from pipeline.artifacts.comparison import Comparison
from pipeline.console import counted, print_result, say, show

_HEADINGS = ("network", "width", "params", "M MACs", "ms", "train s", "accuracy", "over seeds")


def print_comparison(found: Comparison, as_json: bool) -> None:
    """JSON on stdout, or a table and the sentence on stderr."""
    if as_json:
        print_result(found.record(), as_json)
        return
    length, seeds = counted(found.epochs, "epoch"), counted(len(found.seeds), "seed")
    title = f"{length}, {seeds}, p{found.percentile} in the same rounds"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in _HEADINGS:
        name = heading == "network"
        table.add_column(heading, justify="left" if name else "right", overflow="fold", no_wrap=not name)
    for one in found.entrants:
        table.add_row(
            one.name,
            "" if one.width is None else f"{one.width:.2f}",
            f"{one.params:,}",
            f"{one.macs / 1e6:.2f}",
            f"{one.measured_ms:.3f}",
            f"{one.training_s:.0f}",
            f"{sum(one.accuracies) / len(one.accuracies):.2%}",
            f"{min(one.accuracies):.1%} … {max(one.accuracies):.1%}",
        )
    for missed in found.unmatched:
        table.add_row(missed.name, f"{missed.width:.2f}", "", "", f"{missed.measured_ms:.3f}", "", "left out", "")
    show(table)
    say(found.sentence)
