"""IPv6 in zmq, which hears and dials IPv6 addresses only where it is told to, and in ipyparallel, which never tells it.

Only connections to controllers with an IPv6 address are told: on machines without IPv6 nothing changes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from gpulayer_nb.records.connection_file import is_ipv6


def allow_ipv6(socket: Any, info: dict[str, Any]) -> None:
    """Before a zmq socket connects to this controller."""
    if is_ipv6(info):
        import zmq  # late: plain IPython has not loaded it

        socket.setsockopt(zmq.IPV6, 1)


def allow_ipv6_here() -> None:
    """For all sockets that are made in this process from now on. For processes of ours alone, not for a kernel.

    ipyparallel makes a context for each of its devices and schedulers, so nothing less than every new context will do.
    """
    import zmq

    plain_init = zmq.Context.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain_init(self, *args, **kwargs)
        self.set(zmq.IPV6, 1)

    zmq.Context.__init__ = init  # type: ignore[method-assign]
    zmq.Context.instance().set(zmq.IPV6, 1)  # there may have been one


@cache
def context() -> Any:
    """A zmq context of ours whose sockets may use IPv6; one a process, kept until it ends."""
    import zmq

    made: Any = zmq.Context()
    made.set(zmq.IPV6, 1)
    return made
