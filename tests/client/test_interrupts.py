import signal
import threading

import pytest

from gpulayer_nb.client.interrupts import Interrupts


def test_an_interrupt_is_an_exception_until_they_are_counted():
    interrupts = Interrupts()
    with interrupts.taken():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        interrupts.count()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert interrupts.presses == 2
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)  # the handler that was there is back


def test_another_thread_leaves_the_handlers_alone():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with Interrupts().taken():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(5)
    assert seen == [before]
