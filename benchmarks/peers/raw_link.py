"""Bytes over a plain TCP connection: `read PORT` takes and throws away, `write BYTES HOST:PORT...` sends to all at once.

The writer prints the seconds until every reader has confirmed that it has all.
"""

import socket
import sys
import threading
import time

PIECE = 1 << 20


def read(port: int) -> None:
    with socket.create_server(("", port)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                left = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
                while left:
                    left -= len(connection.recv(min(PIECE, left)))
                connection.sendall(b"x")


def write(size: int, address: str) -> None:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(size.to_bytes(8, "big"))
        piece = bytes(PIECE)
        for start in range(0, size, PIECE):
            connection.sendall(piece[: size - start])
        if connection.recv(1) != b"x":
            raise SystemExit("the reader went away")


if sys.argv[1] == "read":
    read(int(sys.argv[2]))
else:
    threads = [threading.Thread(target=write, args=(int(sys.argv[2]), address)) for address in sys.argv[3:]]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(time.perf_counter() - began)
