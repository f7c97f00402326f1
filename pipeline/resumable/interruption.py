"""Signals as a question that a loop asks after every step, so that it saves before it stops."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from pipeline.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STDERR = 2
# A step may take longer than anybody waits; then the last checkpoint has to do. To end a process with torch takes
# another second or two, and five are promised for all of it.
_PATIENCE_S = 3.0


def is_ignored(number: signal.Signals) -> bool:
    """Whether whoever started us wants the signal ignored, as nohup does."""
    return signal.getsignal(number) == signal.SIG_IGN


class Interruption:
    """While it is entered, SIGINT, SIGTERM and SIGHUP set `requested`; a second SIGINT acts as it would have without.

    A loop that does not stop in three seconds is stopped where it is; it goes on from its last checkpoint another time.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in _SIGNALS if not is_ignored(number)]
            self._previous = {number: signal.signal(number, self._note) for number in heard}
            self._previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._lose_patience)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hold()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def hold(self) -> None:
        """The loop has heard, and saves its state: it is given the time that takes."""
        if self._previous:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def stop(self, what: str) -> Interrupted:
        """The error to raise once the state is saved; `what` says where the work stands."""
        return Interrupted(f"interrupted: {what} saved; run the same command to go on")

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            signal.signal(signal.SIGINT, self._previous[signal.SIGINT])
            raise KeyboardInterrupt
        if not self.requested:
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S)
        self.requested = True
        words = f"\nstopping: this step has {_PATIENCE_S:g} s to end …\n"
        os.write(_STDERR, words.encode())  # safe in a handler, whatever else is printing

    def _lose_patience(self, number: int, frame: FrameType | None) -> None:
        raise Interrupted(
            f"interrupted in a step of more than {_PATIENCE_S:g} s: all since the last checkpoint is lost, the "
            "rest is saved; run the same command to go on from there"
        )
