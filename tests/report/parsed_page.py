"""The page of a run as a browser takes it apart."""

from html.parser import HTMLParser

from pipeline.report.contents import read_contents
from pipeline.report.page import render_page
from pipeline.rundir import RunDir

SECTIONS = ("answer", "reasons", "network", "table", "search", "training", "rivals", "settings")


class Parsed(HTMLParser):
    """The page as a browser takes it apart: tags with their attributes, and all text outside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._inside):
            self.text.append(data)

    @property
    def ids(self) -> list[str | None]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


def page_of(run: RunDir) -> str:
    return render_page(read_contents(run, run.project / "pipeline.toml"))
