"""Signals become a flag; a second Ctrl-C is not swallowed."""

import os
import signal

import pytest

from pipeline.resumable.interruption import Interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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
