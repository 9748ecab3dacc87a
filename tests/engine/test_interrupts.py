import contextlib
import signal
import threading
import time

import pytest

from gpulayer_nb.engine.interrupts import InterruptGate


def test_an_interrupt_reaches_code_inside_the_gate():
    gate = InterruptGate()
    timer = threading.Timer(0.1, gate.interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt), gate.open():
        time.sleep(5)
    assert gate.was_interrupted


def test_an_interrupt_outside_the_gate_does_nothing():
    gate = InterruptGate()
    assert not gate.interrupt()
    with gate.open():
        pass
    assert not gate.interrupt()


def test_an_interrupt_does_not_disturb_what_is_shut():
    gate = InterruptGate()
    with gate.open():
        with gate.shut():
            assert not gate.interrupt()
            signal.raise_signal(signal.SIGINT)  # sent just before it was shut
        assert not gate.was_interrupted


def test_the_handler_that_was_there_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    gate = InterruptGate()
    with contextlib.suppress(ValueError), gate.open():
        raise ValueError
    assert signal.getsignal(signal.SIGINT) is before
