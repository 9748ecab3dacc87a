"""A worker on its way to its controller."""

import errno
import socket

import pytest

from gpulayer_nb.errors import ClusterError
from gpulayer_nb.worker import joining


@pytest.fixture
def controller():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_way_that_is_only_just_coming_up_is_waited_for(controller, monkeypatch):
    tries = []

    def connect(address, timeout):
        tries.append(address)
        if len(tries) == 1:
            raise OSError(errno.EHOSTUNREACH, "No route to host")
        return real(address, timeout)

    real = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", connect)
    joining._reach({"registration": controller}, "127.0.0.1")
    assert tries == [("127.0.0.1", controller)] * 2


def test_a_way_that_does_not_come_is_named(controller, monkeypatch):
    def connect(address, timeout):
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr(joining, "_REACH_SECONDS", 0.3)
    with pytest.raises(ClusterError, match=rf"127\.0\.0\.1:{controller} \(Network is unreachable\)"):
        joining._reach({"registration": controller}, "127.0.0.1")


def test_a_closed_port_is_told_at_once(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    monkeypatch.setattr(joining, "_REACH_SECONDS", 600.0)
    with pytest.raises(ClusterError, match="Connection refused"):
        joining._reach({"registration": closed}, "127.0.0.1")
