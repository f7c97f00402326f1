"""Why this network: which source of judgement ranked how well, the shortlist, and the rounds of the certificate."""

from xml.etree.ElementTree import Element

from pipeline.artifacts.selection import CHOSEN, OVER, TIGHT, CandidateFigures, Figures, Selection
from pipeline.console import counted
from pipeline.report.contents import Contents
from pipeline.report.layout import Cell, figure, milliseconds, percent, section, sources, table, whole
from pipeline.report.markup import Child, tag
from pipeline.report.pictures.selection import draw_rounds
from pipeline.report.sections.search import describe_short


def make_reasons(contents: Contents) -> Element | None:
    certificate, selection, run = contents.certificate, contents.selection, contents.run
    if certificate is None:
        return None
    rounds = draw_rounds(certificate.iterations, certificate.budget_ms, certificate.percentile)
    words = (
        "Every network that was measured before one was taken. A measurement over the budget lowers the limit that the "
        "next network is sought under; one that fits leaves room for a better one."
    )
    return section(
        "reasons",
        "Why this network",
        _explain(selection),
        _doubt(contents),
        [] if selection is None else _evidence(contents, selection),
        [] if selection is None else _shortlist(contents, selection),
        figure(rounds, words, contents.place(run.certificate)),
    )


def _explain(selection: Selection | None) -> Element:
    if selection is None:
        return tag("p", "It was given as a genotype file, and measured here before it was trained.")
    fitting = sum(candidate.verdict != OVER for candidate in selection.candidates)
    argmax, percentile = selection.argmax, int(selection.limits["percentile"])
    tight = any(candidate.verdict == TIGHT for candidate in selection.candidates)
    those = "those that leave something of the budget for the drift of a machine" if tight else "those"
    fits = "would fit too" if argmax.within_limits else "does not fit"
    classic = f"is predicted to take {argmax.predicted_ms:.3g} ms and {fits}"
    if _is_same_network(selection.chosen, argmax):
        classic = "is the same network"
    judged = _judged_by(selection)
    return tag(
        "p",
        f"{_count_tried(len(selection.candidates), fitting, percentile)}, and this one was judged the best of {those}, "
        f"{judged}. The classic argmax of the search {classic}.",
    )


def _judged_by(selection: Selection) -> str:
    if selection.chosen.judged is None:
        return "by the search"
    if not selection.evidence:
        return "by the search, by zero-cost proxies and by size"
    return "by the sources below, with their weights, and by size"


def _doubt(contents: Contents) -> Element | None:
    doubt = describe_short(contents.search.entries)
    return (
        tag("p", f"What the search found is not trusted here, for it was {doubt}.", class_="doubt") if doubt else None
    )


def _count_tried(tried: int, fitting: int, percentile: int) -> str:
    if tried == 1:
        return f"One network was tried at p{percentile} and fits"
    return f"{tried} networks were tried at p{percentile}, {fitting} of them fit"


_OWN = (
    "The search's own two, alpha and supernet (the networks it judged), are trusted with half a weight each as far as "
    "they agree with two zero-cost proxies, naswot and expressivity, on networks of one size; else these two are."
)
_OWN_SHORT = (
    "Two zero-cost proxies are trusted with half a weight each, naswot and expressivity. The search was a short one, "
    "so its own two, alpha and supernet (the networks it judged), have what they earned."
)


def _evidence(contents: Contents, selection: Selection) -> list[Child]:
    if not selection.evidence:
        return [tag("p", "No short trainings were made: what needs none decided alone.")]
    rows = [
        [
            row.source,
            Cell(f"{row.tau:+.2f}", row.tau),
            f"{row.low:+.2f} … {row.high:+.2f}",
            Cell("" if row.weight is None else f"{row.weight:.2f}", row.weight),
        ]
        for row in selection.evidence
    ]
    last = selection.evidence[-1]
    found = f"Together they rank networks left out with τ {last.tau:+.2f} (95 % {last.low:+.2f} … {last.high:+.2f})"
    is_short = _doubt(contents) is not None
    verdict = f"{found}, which chance may explain: what is trusted decides." if last.low <= 0 else f"{found}."
    trials = sum("loss" in entry for entry in contents.trials.entries)
    short = counted(trials, "short training") if trials else "short trainings"
    words = (
        f"How well each source of judgement ranked {short} on this data (Kendall's τ: 0 is chance, 1 perfect). "
        f"{_OWN_SHORT if is_short else _OWN} "
        "Larger is taken to be better; τ is as if all were of one size. Others have what they earned, fitted together: "
        "of two that say the same one may have all, so weights need not follow the single τ."
    )
    return [
        tag("h3", "Evidence"),
        table(("source", "τ", "95 %", "weight"), rows, words, numeric=(1, 2, 3)),
        tag("p", verdict, sources(contents.place(contents.run.selection), contents.place(contents.run.evidence))),
    ]


def _shortlist(contents: Contents, selection: Selection) -> list[Child]:
    percentile = int(selection.limits["percentile"])
    argmax = selection.argmax
    same = [_is_same_network(one, argmax) for one in selection.candidates]
    rows: list[list[Child | Cell]] = [
        [*_row(one), milliseconds(_measured(one, percentile)), one.verdict + "; the classic argmax" * is_argmax]
        for one, is_argmax in zip(selection.candidates, same, strict=True)
    ]
    if not any(same):
        rows.append([*_row(argmax), Cell("–", None), "classic argmax, not measured"])
    chosen = next((n for n, one in enumerate(selection.candidates) if one.verdict == CHOSEN), None)
    headings = ("size", "parameters", "M MACs", "score", "judged", "predicted ms", "measured ms", "verdict")
    words = (
        "Networks in the order they were measured. The score sums over single choices, from a random cell (0 %) to the "
        "best one known. What decides is how a network is judged as a whole, in about standard deviations of those "
        "considered: of those that fit, the highest is taken, so that the highest score need not win."
    )
    return [
        tag("h3", "Shortlist"),
        table(headings, rows, words, chosen, numeric=(1, 2, 3, 4, 5, 6)),
        tag("p", sources(contents.place(contents.run.selection))),
    ]


def _is_same_network(one: Figures, other: Figures) -> bool:
    sizes = [(each.cells, each.channels) for each in (one, other)]
    return sizes[0] == sizes[1] and one.genotype.canonical() == other.genotype.canonical()


def _measured(one: CandidateFigures, percentile: int) -> float | None:
    return None if one.measured_ms is None else one.measured_ms.at(percentile)


def _row(one: Figures) -> list[Child | Cell]:
    return [
        f"{one.cells} × {one.channels}",
        whole(one.params),
        Cell(f"{one.macs / 1e6:.2f}", float(one.macs)),
        percent(one.score_share, 0),
        Cell("–" if one.judged is None else f"{one.judged:+.2f}", one.judged),
        milliseconds(one.predicted_ms),
    ]
