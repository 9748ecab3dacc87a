import socket
import threading

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


def test_a_descriptor_that_was_used_again_is_left_alone():
    listener, near, far = connected_pair()
    found = dict.fromkeys(sockets.open_sockets(), "socket:[1]")
    assert sockets.cut(found) == 0
    near.sendall(b"x")
    assert far.recv(1) == b"x"
    for one in (listener, near, far):
        one.close()
