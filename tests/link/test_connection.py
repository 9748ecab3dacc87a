"""What a connection knows of its controller's engines."""

from types import SimpleNamespace

import pytest

from gpulayer_nb.link import quiet_client


class Reply:
    def __init__(self, engines):
        self.engines = engines

    def result(self, seconds):
        if self.engines is None:
            raise TimeoutError
        return {"content": {"engines": self.engines}}


class Deaf(quiet_client.QuietClient):
    """A client that is told of no engine; what the hub answers when it is asked is in `hub`."""

    _query_stream = None
    _io_loop = SimpleNamespace(add_callback=lambda call, *arguments: call(*arguments))

    def __init__(self, hub):
        self.hub, self.asked_for = hub, 0
        self._connected_at, self._asked, self._is_settled = 0.0, -1.0, False
        self.known = {}

    def close(self, linger=None):
        """There is nothing to close."""

    def _send(self, stream, kind):
        assert kind == "connection_request"
        self.asked_for += 1
        return Reply(self.hub)

    def _update_engines(self, engines):
        self.known.update(engines)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(quiet_client, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_engines_that_registered_while_the_client_connected_are_found(clock):
    client = Deaf({"0": "a"})
    client.catch_up()
    assert client.known == {"0": "a"}
    client.hub = {"0": "a", "1": "b"}
    clock[0] = 0.01
    client.catch_up()
    assert client.known == {"0": "a"} and client.asked_for == 1  # it was asked a moment ago
    clock[0] = 1.5
    client.catch_up()
    assert client.known == {"0": "a", "1": "b"}
    clock[0] = 9.0
    client.catch_up()
    assert client.asked_for == 2  # from here on it hears of them by itself


def test_a_hub_that_does_not_answer_is_asked_again(clock):
    client = Deaf(None)
    clock[0] = 5.0
    client.catch_up()
    assert client.known == {}
    client.hub = {"0": "a"}
    clock[0] = 6.0
    client.catch_up()
    assert client.known == {"0": "a"} and client.asked_for == 2
