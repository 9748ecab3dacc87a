"""Ports that are chosen by one program and listened on by another, some time later."""

import contextlib
import socket

import pytest
from torch.distributed import TCPStore

from gpulayer_nb.link.ports import HeldPort, ephemeral_range, quiet_ports


def test_a_held_port_is_refused_to_others_and_given_to_nobody_who_asks_for_any():
    with contextlib.closing(HeldPort("127.0.0.1")) as held, contextlib.ExitStack() as stack:
        with pytest.raises(OSError, match="in use"), socket.socket() as other:
            other.bind(("127.0.0.1", held.number))
        for _ in range(200):
            other = stack.enter_context(socket.socket())
            other.bind(("127.0.0.1", 0))
            assert other.getsockname()[1] != held.number


def test_whoever_it_is_held_for_can_listen_on_it():
    with contextlib.closing(HeldPort("127.0.0.1")) as held:
        store = TCPStore("127.0.0.1", held.number, is_master=True, wait_for_workers=False)
        store.set("key", "value")
        assert TCPStore("127.0.0.1", held.number, is_master=False).get("key") == b"value"


def test_an_address_of_another_machine_is_an_error_and_leaves_no_socket():
    with pytest.raises(OSError, match="assign"):
        HeldPort("192.0.2.1")


def test_controllers_have_ports_that_nobody_is_given_by_chance():
    first, second = quiet_ports("127.0.0.1", 18, 1000), quiet_ports("127.0.0.1", 18, 1001)
    assert not set(first) & set(second)
    low, _ = ephemeral_range()
    assert first.start >= 20_000 and first.stop <= low
    with socket.create_server(("127.0.0.1", first[7])):
        assert not set(quiet_ports("127.0.0.1", 18, 1000)) & {first[7]}
