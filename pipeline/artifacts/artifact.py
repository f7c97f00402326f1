"""What every artifact has: a name, a maker, a schema version, and one way to be refused."""

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

from pydantic import ValidationError

from pipeline.errors import UserError
from pipeline.whole_files import writing


class Artifact:
    """A file that a stage leaves for others: `name` is that of its path in a run, `maker` the command that makes it.

    An `optional` one may be absent when its stage is done.
    """

    name: ClassVar[str]
    maker: ClassVar[str] = ""
    version: ClassVar[int] = 1
    optional: ClassVar[bool] = False


class Typed(Artifact, ABC):
    """An artifact with a content that is checked whenever it is read."""

    max_bytes: ClassVar[int] = 1 << 36

    @classmethod
    def read(cls, path: Path, command: str = "") -> Self:
        """What `write` left; anything else is refused with the command that makes it anew, by default the maker's."""
        command = f"`pipeline {command or cls.maker}`"
        try:
            if path.exists() and not path.is_file():
                raise ValueError("it is not a file")
            if path.stat().st_size > cls.max_bytes:
                raise ValueError("it is too large")
            return cls._parse(path.read_bytes())
        except FileNotFoundError:
            raise UserError(f"there is no {path}; run {command} first") from None
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror or error}; run {command} again") from None
        except (ValueError, RecursionError, UserError) as error:
            raise UserError(f"{path} is damaged: {_reason(error)}; run {command} again") from None

    def write(self, path: Path) -> None:
        """The file, whole or not at all; equal content is equal bytes, whichever process writes it."""
        content = self._content()
        with writing(path) as part:
            part.write_bytes(content)

    @classmethod
    @abstractmethod
    def _parse(cls, content: bytes) -> Self:
        """The inverse of `_content`; a ValueError or UserError says what is wrong with it."""

    @abstractmethod
    def _content(self) -> bytes:
        """All bytes of the file."""

    @classmethod
    def _check_version(cls, found: object) -> None:
        if str(found) != str(cls.version):
            raise ValueError(f"it has schema version {found}, this program reads {cls.version}")


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        detail = error.errors()[0]
        return f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError):
        return "it is not JSON"
    return str(error)
