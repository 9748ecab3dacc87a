import contextlib
import select
import socket
import threading

import pytest

from gpulayer_nb.engine import sockets


def connected_pair():
    listener = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    return listener, near, far


def test_cutting_wakes_a_reader_on_either_side_and_leaves_others_alone():
    listener, near, far = connected_pair()
    before = sockets.open_sockets()
    listener_2, near_2, far_2 = connected_pair()
    woken = []
    threads = [threading.Thread(target=lambda s=s: woken.append(s.recv(1))) for s in (near_2, far_2)]
    for thread in threads:
        thread.start()
    assert sockets.cut(sockets.opened_since(before)) == 2
    for thread in threads:
        thread.join(timeout=2)
    assert woken == [b"", b""]
    near.sendall(b"x")
    assert far.recv(1) == b"x"
    again = socket.create_connection(listener_2.getsockname(), timeout=1)  # listening sockets stay
    for one in (listener, near, far, listener_2, near_2, far_2, again):
        one.close()


@pytest.mark.parametrize("read", [True, False], ids=["read on", "nobody reads"])
def test_what_a_peer_is_sending_is_taken_before_it_hears_of_the_end(read):
    """gloo loses a send that fails or stops half-way, and who waits for it waits for minutes."""
    listener, near, far = connected_pair()
    mine = {fd: link for fd, link in sockets.open_sockets().items() if fd == near.fileno()}
    use_up_the_room(far)  # what is sent next waits until the kernel asks for room again
    sent = []
    sender = threading.Thread(target=lambda: (far.sendall(bytes(32 << 20)), sent.append(True)))
    sender.start()
    closer = threading.Thread(target=lambda: (wait_for_end(near), near.close()))  # as gloo's own thread does
    if read:
        closer.start()
    assert sockets.cut(mine) == 1
    sender.join(timeout=5)
    if read:
        closer.join(timeout=5)
    assert sent == [True]
    assert far.recv(1) == b""
    for one in (listener, near, far):
        one.close()


def use_up_the_room(connection):
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while connection.send(bytes(1 << 20)):
            pass
    connection.setblocking(True)


def wait_for_end(connection):
    shut = select.poll()
    shut.register(connection, select.POLLRDHUP)
    shut.poll(5000)
    while connection.recv(1 << 16):
        pass


def test_a_connection_settles_once_nothing_is_on_its_way():
    listener, near, far = connected_pair()
    both = {fd: link for fd, link in sockets.open_sockets().items() if fd in (near.fileno(), far.fileno())}
    assert sockets.settle(both)
    near.sendall(b"x")
    assert not sockets.settle(both, 0.1)
    assert far.recv(1) == b"x"
    assert sockets.settle(both)
    for one in (listener, near, far):
        one.close()


def test_where_all_is_closed_nobody_waits(monkeypatch):
    listener, near, far = connected_pair()
    gone = {fd: link for fd, link in sockets.open_sockets().items() if fd in (near.fileno(), far.fileno())}
    for one in (listener, near, far):
        one.close()
    monkeypatch.setattr(sockets.time, "sleep", lambda seconds: pytest.fail("waited for nothing"))
    assert sockets.settle(gone)
    assert sockets.cut(gone) == 0


def test_a_descriptor_that_was_used_again_is_left_alone():
    listener, near, far = connected_pair()
    found = dict.fromkeys(sockets.open_sockets(), "socket:[1]")
    assert sockets.cut(found) == 0
    near.sendall(b"x")
    assert far.recv(1) == b"x"
    for one in (listener, near, far):
        one.close()
