import signal
import threading
from collections.abc import Iterator

import pytest

from gpulayer_nb.client.interrupts import Interrupts


@pytest.fixture(autouse=True)
def _as_in_a_shell() -> Iterator[None]:
    """A process that was started in the background, as by nohup, ignores interrupts from its start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
