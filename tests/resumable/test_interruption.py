"""Signals become a flag; a second Ctrl-C is not swallowed."""

import os
import signal
import time

import pytest

from pipeline.errors import Interrupted
from pipeline.resumable import interruption as module
from pipeline.resumable.interruption import Interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_noted_and_handlers_are_put_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Interruption() as interruption:
        assert not interruption.requested
        os.kill(os.getpid(), number)
        assert interruption.requested
    assert signal.getsignal(number) is before  # type: ignore[unreachable]  # the handler has set `requested`
    error = interruption.stop("epoch 1")
    assert error.exit_code == 130 and "run the same command to go on" in str(error)


def test_a_second_interrupt_stops_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Interruption():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_loop_that_does_not_stop_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
    with pytest.raises(Interrupted, match="all since the last checkpoint is lost"), Interruption():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)


def test_a_loop_that_saves_is_given_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.05)
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGTERM)
        interruption.hold()
        time.sleep(0.1)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interruption.requested
    finally:
        signal.signal(signal.SIGHUP, before)
