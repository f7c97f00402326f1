"""Signals as a question that a loop asks after every step, so that it saves before it stops."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from pipeline.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2


class Interruption:
    """While it is entered, SIGINT and SIGTERM set `requested`; a second SIGINT acts as it would have without."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def stop(self, what: str) -> Interrupted:
        """The error to raise once the state is saved; `what` says where the work stands."""
        return Interrupted(f"interrupted: {what} saved; run the same command to go on")

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            signal.signal(signal.SIGINT, self._previous[signal.SIGINT])
            raise KeyboardInterrupt
        self.requested = True
        os.write(_STDERR, "\nstopping after this step …\n".encode())  # safe in a handler, whatever else is printing
