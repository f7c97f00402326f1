"""Plays cases in processes forked from one that has torch loaded: isolation and limits for milliseconds."""

import contextlib
import errno
import multiprocessing
import os
import resource
import runpy
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from tests.campaign.case import Case, Ending, Limits
from tests.campaign.clock import script_clock
from tests.campaign.oracle import find_faults, read_tree

CPU_LIMIT_S = 60
_WALL_LIMIT_S = 240.0  # on a machine with other work beside it; a wait for something that never comes takes none of it
_IDLE_S = 60.0
# An exit code can be read once. Whoever starts a process asks for the codes of all others, too (multiprocessing), and
# of two threads that ask at once the second finds nothing left to read and takes that for exit code 255.
_ASKING = threading.Lock()
COUNTED = b"touched\n"
_PRELOADED = ("tests.campaign.loaded",)
_WRITES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree"}


def fork_server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    return context


def play(case: Case, finished: Path, server: ForkServerContext, work: Path | None = None) -> tuple[Ending, list[str]]:
    """A copy of the finished project, spoiled; the command; and what was wrong with how it ended."""
    with tempfile.TemporaryDirectory(dir=work, ignore_cleanup_errors=True) as place:
        project = Path(place) / "project"
        shutil.copytree(finished, project, symlinks=True)
        case.change(project)
        before = read_tree(project)
        ending = run(case, project, Path(place), server)
        return ending, list(find_faults(case, ending, before, read_tree(project)))


def run(case: Case, project: Path, place: Path, server: ForkServerContext) -> Ending:
    """The command in a process of its own, ended by force when it takes too long."""
    out, err = place / "stdout", place / "stderr"
    process = server.Process(target=_command, args=(_plain(case), str(project), str(out), str(err)))
    with _ASKING:
        process.start()
    hung = not _wait(process)
    if hung:
        process.kill()
        while _is_alive(process, 0.5):
            pass
    hung = hung or (process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL) and case.limits.fault != "kill")
    code = int(process.exitcode or 0)
    stdout, stderr = (path.read_bytes().decode("utf-8", "replace") if path.exists() else "" for path in (out, err))
    cpu = place / "cpu"  # empty where nothing could be written
    return Ending(code, stdout, stderr, float(cpu.read_text() or 0.0) if cpu.exists() else 0.0, hung)


def _plain(case: Case) -> dict[str, Any]:
    """What of a case the process needs; its change is done, and may not be picklable."""
    kept = ("arguments", "environment", "limits", "script", "folder")
    return {name: getattr(case, name) for name in kept}


def _wait(process: ForkServerProcess) -> bool:
    """Whether it ended by itself in time."""
    started, spent, moved = time.monotonic(), 0.0, time.monotonic()
    while _is_alive(process, 0.5):
        now, taken = time.monotonic(), _cpu_s(process.pid)
        if taken > spent + 0.1:
            spent, moved = taken, now
        if now - moved > _IDLE_S or now - started > _WALL_LIMIT_S:
            return False
    return True


def _is_alive(process: ForkServerProcess, within_s: float) -> bool:
    """Whether it still runs after so long, or until it ends."""
    wait([process.sentinel], within_s)
    with _ASKING:
        return process.is_alive()


def _cpu_s(pid: int | None) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _command(case: dict[str, Any], project: str, out: str, err: str) -> None:
    """The body of the process."""
    for number, path in ((1, out), (2, err)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(Path(project) / case["folder"])
    os.environ.update({"COLUMNS": "200", **case["environment"]})
    script_clock()
    _limit(case["limits"], project)
    try:
        with _noted(Path(out).with_name("cpu")):
            _main(case)
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()


@contextlib.contextmanager
def _noted(path: Path) -> Iterator[None]:
    start = time.process_time()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.write_text(str(time.process_time() - start))


def _main(case: dict[str, Any]) -> None:
    if case["script"]:
        sys.argv = [case["script"], *case["arguments"]]
        runpy.run_path(case["script"], run_name="__main__")
        return
    from pipeline.cli import main

    sys.argv = ["pipeline", *case["arguments"]]
    main()


def _limit(limits: Limits, project: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as Python does at its start
    wanted = {
        resource.RLIMIT_CPU: CPU_LIMIT_S,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
    }
    for name, value in wanted.items():
        if value is not None:
            resource.setrlimit(name, (value, value))
    if limits.fault:
        sys.addaudithook(Fault(limits, project))


class Fault:
    """The nth time that the process is about to change something in the project, it fails or is killed."""

    def __init__(self, limits: Limits, project: str) -> None:
        self.left, self.fault, self.project = limits.fault_at, limits.fault, project

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._writes(event, arguments):
            return
        self.left -= 1
        if self.fault == "count":
            os.write(1, COUNTED)
        elif self.left == 0:
            if self.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            number = getattr(errno, self.fault)
            raise OSError(number, os.strerror(number), str(arguments[0]))

    def _writes(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
            return writes and isinstance(path, (str, bytes)) and os.fsdecode(path).startswith(self.project)
        return event in _WRITES and str(arguments[0]).startswith(self.project)
