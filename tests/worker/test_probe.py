"""Whether workers reach each other, told within the time that was given."""

import socket
import time

import pytest

from gpulayer_nb.worker.probe import ProbePort, Target, probe


@pytest.fixture
def port():
    made = ProbePort("127.0.0.1")
    yield made
    made.close()


def test_a_port_that_answers_with_its_word_is_reached_by_many_at_once(port):
    assert probe([Target(f"w{i}", "127.0.0.1", port.port, port.token) for i in range(127)], 5.0) == {}


def test_each_way_of_not_being_reached_has_its_words(port):
    with socket.socket() as silent, socket.socket() as closed:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # accepts in the kernel, and nobody speaks
        closed.bind(("127.0.0.1", 0))
        targets = [
            Target("silent", "127.0.0.1", silent.getsockname()[1], port.token),
            Target("closed", "127.0.0.1", closed.getsockname()[1], port.token),
            Target("other", "127.0.0.1", port.port, "0" * len(port.token)),
            Target("nameless", "no-such-host.invalid", 1, port.token),
        ]
        started = time.monotonic()
        failed = probe(targets, 1.0)
    assert time.monotonic() - started < 3.0
    assert failed["silent"] == "no answer in 1 s" and failed["closed"] == "Connection refused"
    assert failed["other"] == "something else answers there" and failed["nameless"]


def test_an_address_of_another_machine_cannot_be_listened_on():
    with pytest.raises(OSError, match="Cannot assign requested address"):
        ProbePort("192.0.2.1")
