"""The network itself: every part with its share of the milliseconds, and the table that predicted them."""

from xml.etree.ElementTree import Element

from pipeline.artifacts.latency_table import Column, SkeletonEntry
from pipeline.errors import UserError
from pipeline.latency.predictor import Predictor
from pipeline.latency.validity import describe_validation
from pipeline.report.anatomy import Anatomy, dissect
from pipeline.report.contents import Contents
from pipeline.report.layout import figure, figures, section
from pipeline.report.markup import Child, tag
from pipeline.report.pictures.latency import draw_costs, draw_predictions
from pipeline.report.pictures.network import draw_cell, draw_strip
from pipeline.space.skeleton import Skeleton


def make_network(contents: Contents) -> Element | None:
    """The deployed network drawn, not the argmax of the search."""
    if contents.network is None:
        return None
    anatomy = _dissect(contents)
    skeleton = contents.network.skeleton
    unit = "layers" if anatomy.is_layerwise else "cells"
    words = (
        f"Space {skeleton.space}: {skeleton.cells} {unit}, {skeleton.channels} channels, {skeleton.resolution} px, "
        f"{skeleton.classes} classes. This is the network that is deployed."
    )
    genotype = contents.place(contents.run.genotype)
    files = (genotype, contents.table_path, contents.place(contents.run.part_times) if _is_measured(anatomy) else None)
    pictures: list[Element | None] = [figure(draw_strip(anatomy), _explain_strip(anatomy), *files)]
    if not anatomy.is_layerwise:
        pictures += [
            figure(draw_cell(view, anatomy.total), _explain_cell(view.kind.name, view.cells), *files)
            for view in anatomy.kinds
        ]
    return section("network", "The network", tag("p", words), _explain_times(anatomy), pictures)


def _dissect(contents: Contents) -> Anatomy:
    assert contents.network is not None
    told = contents.card or contents.certificate
    latency_ms = None if told is None or told.measured_ms is None else told.measured_ms.p50
    return dissect(contents.network, _predictor(contents), contents.part_times, latency_ms)


def _predictor(contents: Contents) -> Predictor | None:
    """That of the run's table; a table which does not know the network predicts nothing."""
    if contents.table is None or contents.network is None:
        return None
    try:
        return Predictor(contents.table, contents.network.skeleton)
    except UserError:
        return None


def _is_measured(anatomy: Anatomy) -> bool:
    return anatomy.total.measured_ms is not None


def _explain_strip(anatomy: Anatomy) -> str:
    drawn = "height is expansion, colour the kernel, se squeeze-excite" if anatomy.is_layerwise else "cells in order"
    figures = "; the figures are the measured ones" if _is_measured(anatomy) else ""
    return (
        f"From input to output ({drawn}), with channels and resolution of what each part gives; below, what it takes, "
        f"in µs (from 1 ms on, in ms){figures}.{_explain_sum(anatomy)}"
    )


def _explain_sum(anatomy: Anatomy) -> str:
    """Why predicted parts do not add up to what is predicted of the network."""
    total_ms, rest_ms = anatomy.total.predicted_ms, anatomy.rest.predicted_ms
    if total_ms is None or rest_ms is None:
        return ""
    return (
        f" Predicted parts add up to {total_ms - rest_ms:.2f} ms; the constant of the calibration, {rest_ms:+.2f} ms, "
        "belongs to none of them, and a runtime that merges equal operations needs less still."
    )


def _explain_cell(kind: str, cells: int) -> str:
    return (
        f"The {kind} cell, {cells} of them in the network. An arrow is an operation from an input or node to the node "
        "that sums it; bars are the operation's share of the network's milliseconds in all those cells together, "
        "predicted above and measured below."
    )


def _explain_times(anatomy: Anatomy) -> Element:
    parts = []
    if anatomy.total.predicted_ms is not None:
        parts.append("Predicted times are the latency table's, one by one.")
    if _is_measured(anatomy):
        rest = anatomy.rest.measured_ms or 0.0
        parts.append(
            "Measured times are by onnxruntime's profiler, scaled to the measured latency; what the runtime fuses "
            f"counts where its last operation stands, and {rest / (anatomy.total.measured_ms or 1.0):.0%} are its own "
            "changes of layout."
        )
    return tag("p", " ".join(parts) or "There are no times: no latency table of this network was found.")


def make_table(contents: Contents) -> Element | None:
    """How far the table's predictions can be believed."""
    table = contents.table
    if table is None or "fp32" not in table.precisions:
        return None
    column = table.column("fp32")
    entry = _entry(contents, column)
    if entry is None:
        return None
    skeleton = Skeleton(**entry.skeleton)
    words: list[Child] = [
        f"For {skeleton.cells} cells, {skeleton.channels} channels and {skeleton.resolution} px the table is "
        f"{describe_validation(entry.validation)}. Noise floor while it was measured: {column.noise_floor:.1%}."
    ]
    path = contents.table_path
    return section(
        "table",
        "Can the predictions be believed",
        tag("p", words),
        figures(
            figure(draw_predictions(column, entry), "Whole networks: predicted and measured.", path),
            figure(
                draw_costs(column, skeleton),
                "Single operations by place: channels@pixels, /stride where it is not 1. Hover for figures.",
                path,
            ),
        ),
    )


def _entry(contents: Contents, column: Column) -> SkeletonEntry | None:
    """What the table knows about the chosen network's size, or the first size it knows."""
    if contents.network is not None:
        return column.entry(contents.network.skeleton)
    return column.skeletons[0] if column.skeletons else None
