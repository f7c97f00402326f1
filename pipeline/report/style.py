"""How the page and its pictures look and behave: the texts of page.css, pictures.css and page.js."""

import base64
import hashlib
from pathlib import Path


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


PICTURE_STYLE = _read("pictures.css")
PAGE_STYLE = PICTURE_STYLE + _read("page.css")
SCRIPT = _read("page.js")


def content_policy() -> str:
    """What a browser may do with the page: run our script, apply styles, show images it carries; fetch nothing."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
