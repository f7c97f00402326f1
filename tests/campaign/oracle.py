"""The one oracle: what is wrong with how a case ended, in the words that the counts use."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from tests.campaign.case import Case, Ending

CODES = {0, 2, 3, 130}
SCRIPT_CODES = {0, 1, 2}  # predict.py is a script like others, which say 1 for some images and 2 for usage
REFUSALS = {2, 3}
_LONGEST = 4000
# a stage under way keeps its state there, so that the same command goes on from it
_UNDER_WAY = re.compile(
    r"/checkpoint(\.aside)?(/|$)|/tensorboard/|/rank/|/evidence\.jsonl$|/\.lock$|/log\.txt$|^runs(/[^/]+)?(/\w+)?$"
)
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")

Tree = dict[str, str]


def read_tree(project: Path) -> Tree:
    """What lies in a project: a mark of every file, link and folder by its name."""
    found: Tree = {}
    for folder, folders, files in os.walk(os.fsencode(project)):
        for name in (*folders, *files):
            path = os.path.join(folder, name)  # noqa: PTH118  names may be no text
            found[os.fsdecode(os.path.relpath(path, os.fsencode(project)))] = _mark(path)
    return found


def _mark(path: bytes) -> str:
    state = os.lstat(path)
    if stat.S_ISREG(state.st_mode):
        with open(path, "rb") as file:  # noqa: PTH123
            return hashlib.file_digest(file, "sha256").hexdigest()
    return f"{stat.S_IFMT(state.st_mode):o}"


def find_faults(case: Case, ending: Ending, before: Tree, after: Tree) -> Iterator[str]:
    """Every way in which the ending breaks a promise; nothing, if all are kept."""
    if ending.hung:
        yield "hang"
        return
    if "Traceback (most recent call last)" in ending.stderr + ending.stdout:
        yield "traceback"
        return
    if ending.code not in (SCRIPT_CODES if case.script else CODES):
        yield f"wrong code {ending.code}"
        return
    if ending.code:
        yield from _words(ending) if case.script else _sentence(ending)
    if ending.code == 0 and case.must == "be refused":
        yield "silent acceptance"
    if ending.code and case.must == "be done":
        yield "refused what is right"
    if case.limits.fault or case.limits.file_bytes:  # amid its work: every file is old or new, and none is half
        left = [name for name in after if name not in before and name.endswith(".part")]
        yield from [f"half-written {left[0]}"] if left else []
    elif ending.code in REFUSALS:
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        if case.must != "be refused":
            changed = [name for name in changed if not _UNDER_WAY.search(name)]
        if changed:
            yield f"a refusal changed {', '.join(changed[:3])}"


def _words(ending: Ending) -> Iterator[str]:
    if not ending.stderr.strip():
        yield "no word"


def _sentence(ending: Ending) -> Iterator[str]:
    """One error, which says something and can be printed; more lines belong to it only if they are indented."""
    _, *sentences = re.split(r"^error: ", ending.stderr, flags=re.MULTILINE)
    if len(sentences) != 1:
        yield f"{len(sentences)} sentences"
        return
    first, *more = sentences[0].rstrip("\n").split("\n")
    if len(first) < 12 or len(sentences[0]) > _LONGEST or any(line and not line.startswith("  ") for line in more):
        yield "not one sentence"
    if _CONTROL.search(sentences[0]):
        yield "control characters on the terminal"
