"""report.html: one page with all that a run has to show, which needs no network, no other file and no framework."""

from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element

from pipeline.artifacts.network import genotype_hash
from pipeline.console import say
from pipeline.errors import UserError
from pipeline.latency.devices import open_device
from pipeline.latency.onnx_device import OnnxDevice
from pipeline.latency.part_times import time_parts
from pipeline.report.contents import Contents, read_contents
from pipeline.report.markup import keep_links_within, render_html, tag, with_code
from pipeline.report.sections.answer import make_answer
from pipeline.report.sections.network import make_network, make_table
from pipeline.report.sections.reasons import make_reasons
from pipeline.report.sections.rivals import make_budgets, make_rivals
from pipeline.report.sections.search import make_search
from pipeline.report.sections.settings import make_settings
from pipeline.report.sections.suspects import make_suspects
from pipeline.report.sections.training import make_training
from pipeline.report.style import PAGE_STYLE, SCRIPT, content_policy
from pipeline.rundir import RunDir
from pipeline.whole_files import write_text

_SECTIONS = (
    make_answer, make_reasons, make_network, make_table, make_search, make_training, make_suspects, make_rivals,
    make_budgets, make_settings,
)  # fmt: skip
_IN_PROJECT = "Links lead to the files that the figures come from, as long as this page lies in its project."
_IN_EXPORT = "Links lead to files beside this page; other files that it names lie in the project that it comes from."


def write_report(run: RunDir, config_path: Path) -> Path:
    """Write runs/NAME/report.html, and beside the export, if there is one, the same without links to other folders."""
    contents = _with_part_times(read_contents(run, config_path))
    for note in contents.notes:
        say(f"report: {note}")
    write_text(run.report, render_page(contents))
    if contents.card is not None:
        write_text(run.exported_report, render_page(contents, exported=True))
    return run.report


def render_page(contents: Contents, exported: bool = False) -> str:
    """The page; the same contents give the same text. The `exported` one may be copied with its folder."""
    sections = [made for make in _SECTIONS if (made := make(contents)) is not None]
    title = f"{contents.run.name} – latency pipeline"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=content_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", PAGE_STYLE),
    )
    body = tag(
        "body",
        tag("header", tag("h1", "Run ", tag("bdi", contents.run.name))),
        tag("nav", [_entry(one) for one in sections]),
        tag("main", _notes(contents), sections),
        tag("footer", _IN_EXPORT if exported else _IN_PROJECT),
        tag("script", SCRIPT),
    )
    if exported:
        keep_links_within(body, contents.place(contents.run.exports))
    return render_html(tag("html", head, body, lang="en"))


def _entry(made: Element) -> Element:
    heading = made.find("h2")
    return tag("a", "" if heading is None else heading.text or "", href=f"#{made.get('id')}")


def _notes(contents: Contents) -> Element | None:
    if not contents.notes:
        return None
    return tag("div", [tag("p", with_code(_begun(note))) for note in contents.notes], class_="notes", role="note")


def _begun(note: str) -> str:
    """With a capital letter, unless it begins with the name of a file."""
    return note[:1].upper() + note[1:] if note.partition(" ")[0].isalpha() else note


def _with_part_times(contents: Contents) -> Contents:
    """The contents with a look by the profiler, made once per network, if this is the machine that certified it."""
    network, certificate, config = contents.network, contents.certificate, contents.config
    if network is None or certificate is None or config is None or config.profile.backend != "onnxruntime":
        return contents
    known = contents.part_times
    wanted = (genotype_hash(network.genotype), network.skeleton, certificate.device)
    if known is not None and (known.genotype_sha256, known.skeleton, known.device) == wanted:
        return contents
    target = config.target
    try:
        device = open_device(target.device, target.threads, target.batch)
    except UserError:
        return replace(contents, part_times=None)
    if not isinstance(device, OnnxDevice) or device.fingerprint != certificate.device:
        return replace(contents, part_times=None)
    times = time_parts(device, network.skeleton, network.genotype)
    times.write(contents.run.part_times)
    return replace(contents, part_times=times)
