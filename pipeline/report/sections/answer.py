"""The answer: which model, does it fit and by how much, how good it is, and what was promised."""

from typing import NamedTuple
from xml.etree.ElementTree import Element

from pipeline.artifacts.certificate import Certificate
from pipeline.artifacts.known_latency import BEFORE_TRAINING, MEASURED, PREDICTED
from pipeline.artifacts.metrics import Metrics
from pipeline.artifacts.model_card import ModelCard
from pipeline.latency.target import FIRM_NOISE_FLOOR, P50_MEANS
from pipeline.report.contents import Contents
from pipeline.report.layout import Fact, facts, figure, folded, section, table
from pipeline.report.markup import Child, link, tag, with_code
from pipeline.report.pictures.selection import draw_gauge
from pipeline.space.plan import count_macs, count_params
from pipeline.training.measures import describe_chance, wilson_interval


class _Latency(NamedTuple):
    """What was measured last: after training, or before it."""

    record: ModelCard | Certificate
    is_exported: bool

    @property
    def ms(self) -> float:
        return self.record.latency_ms.at(self.record.percentile)

    @property
    def interval_ms(self) -> tuple[float, float]:
        floor = self.record.noise_floor or 0.0
        return self.record.latency_interval_ms or (self.ms * (1 - floor), self.ms * (1 + floor))


def make_answer(contents: Contents) -> Element:
    """The first thing that is read."""
    told = contents.card or contents.certificate
    if told is None:
        return section("answer", "The answer", _unfinished(contents), _next(contents))
    latency = _Latency(told, contents.card is not None)
    run = contents.run
    source = contents.place(run.model_card if latency.is_exported else run.certificate)
    gauge = draw_gauge(latency.ms, latency.interval_ms, told.budget_ms)
    caption = f"{told.basis.capitalize()}: p{told.percentile} with its 95 % interval, and the budget; {P50_MEANS}."
    return section(
        "answer",
        "The answer",
        _verdict(latency),
        tag("p", with_code(_doubts(latency, contents)), class_="doubt"),
        None if contents.metrics is None else tag("p", with_code(_chance(contents.metrics)), class_="verdict bad"),
        figure(gauge, caption, source),
        facts(_facts(contents, latency)),
        tag("p", tag("strong", "Is it worth it? "), _describe_rivals(contents)),
        _contract(contents.card),
        _next(contents),
    )


def _unfinished(contents: Contents) -> Element:
    done = "Nothing was searched"
    if contents.search.entries:
        done = "A search was made" if _is_searched(contents) else "A search has begun and is not done"
    return tag("p", f"{done}; no network has been chosen and measured yet.", class_="verdict doubt")


def _verdict(latency: _Latency) -> Element:
    told, ms = latency.record, latency.ms
    spare = 1 - ms / told.budget_ms
    when = "" if told.basis == MEASURED and latency.is_exported else f", {_basis(latency)}"
    if ms <= told.budget_ms:
        text = f"It fits: {ms:.3g} ms of {told.budget_ms:g} ms (p{told.percentile}{when}), {spare:.0%} to spare."
        return tag("p", text, class_="verdict good")
    return tag("p", f"It does not fit: {ms:.3g} ms, {told.budget_ms:g} ms allowed.", class_="verdict bad")


def _basis(latency: _Latency) -> str:
    """How the latency came to be known."""
    return BEFORE_TRAINING if latency.record.basis == MEASURED and not latency.is_exported else latency.record.basis


def _doubts(latency: _Latency, contents: Contents) -> str:
    """Every reason to measure again, in one place, and how to."""
    told, certificate, doubts = latency.record, contents.certificate, list[str]()
    if told.within_noise:
        low, high = latency.interval_ms
        doubts.append(f"within the noise of the budget: p{told.percentile} lies between {low:.4g} and {high:.4g} ms")
    if told.basis == PREDICTED:
        doubts.append(f"{PREDICTED}: `export --write-kit` lets it measure")
    if told.noise_floor is not None and told.noise_floor > FIRM_NOISE_FLOOR:
        doubts.append(f"the machine was noisy (noise floor {told.shown_noise})")
    if certificate is not None and certificate.table_validated is False:
        doubts.append("the latency table misses its validity gate")
    if certificate is not None and certificate.table_differences:
        doubts.append(f"the latency table is of another machine ({'; '.join(certificate.table_differences)})")
    if not doubts:
        return ""
    again = f" `pipeline {contents.run.call('export')} --force` measures again." if latency.is_exported else ""
    return f"Provisional: {'; '.join(doubts)}.{again}"


def _chance(metrics: Metrics) -> str:
    doubt = describe_chance(metrics)
    return f"But it is {doubt}." if doubt else ""


def _facts(contents: Contents, latency: _Latency) -> list[Fact]:
    told, certificate = latency.record, contents.certificate
    rows = [_accuracy(contents.metrics)] if contents.metrics is not None else []
    low, high = latency.interval_ms
    rows.append(
        Fact(
            f"latency, p{told.percentile}",
            f"{latency.ms:.3g} ms",
            f"{_basis(latency)}; 95 % between {low:.4g} and {high:.4g} ms{_noise(told)}",
        )
    )
    percentiles = " / ".join(f"{told.latency_ms.at(q):.3g}" for q in (50, 95, 99))
    raw_ms = told.latency_ms.raw_p50
    raw = "" if raw_ms is None else f"; p50 is of undisturbed calls, that of all (raw_p50) is {raw_ms:.3g} ms"
    over = [f"p{q}" for q in (95, 99) if q > told.percentile and told.latency_ms.at(q) > told.budget_ms]
    exceed = "exceeds" if len(over) == 1 else "exceed"
    slower = f"; the budget is for p{told.percentile}, and {' and '.join(over)} {exceed} it" if over else ""
    rows.append(
        Fact(
            "p50 / p95 / p99",
            f"{percentiles} ms",
            "5 % of calls take longer than p95, 1 % than p99: other work on the machine shows there "
            f"first{slower}{raw}",
        )
    )
    if certificate is not None and certificate.predicted_ms is not None:
        before = f"by the latency table; then certified at {certificate.certified_ms:.3g} ms, {certificate.basis}"
        rows.append(Fact("predicted latency", f"{certificate.predicted_ms:.3g} ms", before))
    network = contents.network
    if network is not None:
        params, macs = (count(network.skeleton, network.genotype) for count in (count_params, count_macs))
        size = f"{macs / 1e6:,.2f} M multiply-adds"
        rows.append(Fact("parameters", f"{params:,}", size))
    card = contents.card
    if card is not None:
        run = contents.run
        kept = sum(clause.passed for clause in card.contract)
        rows.append(Fact("model", f"{card.file_mb:.2f} MB", link(contents.place(run.model))))
        rows.append(Fact("contract", f"{kept} of {len(card.contract)} clauses kept", "listed below"))
        if card.int8 is not None:
            rows.append(Fact("int8", "shipped" if card.int8.shipped else "not shipped", with_code(card.int8.reason)))
    device = (certificate or told.certificate if isinstance(told, ModelCard) else told).device
    machine = f"{device.threads} thread(s), batch {device.batch}, {device.runtime} {device.runtime_version}"
    return [*rows, Fact("measured on", device.processor, machine)]


def _noise(told: ModelCard | Certificate) -> str:
    return "" if told.noise_floor is None else f"; noise floor {told.shown_noise}"


def _accuracy(metrics: Metrics) -> Fact:
    low, high = wilson_interval(metrics.test_accuracy, metrics.test_images)
    words = f"95 % between {low:.1%} and {high:.1%}, {metrics.test_images:,} images"
    return Fact("test accuracy", f"{metrics.test_accuracy:.2%}", words)


def _describe_rivals(contents: Contents) -> Child:
    if contents.comparison is not None:
        return [contents.comparison.sentence, " ", tag("a", "The rivals.", href="#rivals")]
    return [
        "Nobody knows yet: ",
        tag("code", f"pipeline compare{contents.run.flag}"),
        " trains rivals of the same latency.",
    ]


def _contract(card: ModelCard | None) -> Element | None:
    if card is None or not card.contract:
        return None
    rows = [[clause.clause, clause.promise, "kept" if clause.passed else "broken"] for clause in card.contract]
    return folded("The contract, clause by clause", table(("clause", "promise", "verdict"), rows))


def _is_searched(contents: Contents) -> bool:
    return contents.run.alphas.is_file()


def _next(contents: Contents) -> Element | None:
    """The command that goes on from here."""
    steps = (
        (_is_searched(contents) or contents.network is not None, "search"),
        (contents.network is not None and contents.certificate is not None, "discretize"),
        (contents.metrics is not None, "retrain"),
        (contents.card is not None, "export"),
    )
    command = next((name for done, name in steps if not done), None)
    if command is None:
        return None
    return tag("p", "This run is not finished. Next: ", tag("code", f"pipeline {command}{contents.run.flag}"))
