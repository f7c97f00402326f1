"""mistakes.json: the test images that the trained network is most wrong about, small enough to look at."""

from typing import Annotated

from pydantic import Field

from pipeline.artifacts.document import Document, Part
from pipeline.artifacts.fields import Count, Share

_Base64 = Annotated[str, Field(pattern="^[A-Za-z0-9+/]+=*$", max_length=200_000)]


class Mistake(Part):
    """One test image (its number, and its file if it has one), its class, the network's answer and how sure it is."""

    image: Count
    file: str | None = None
    truth: str
    answer: str
    confidence: Share
    png: _Base64


class Mistakes(Document):
    """The surest wrong answers, the surest first; `wrong` counts all."""

    name, maker = "mistakes", "retrain"
    optional = True

    wrong: Count
    shown: list[Mistake]
