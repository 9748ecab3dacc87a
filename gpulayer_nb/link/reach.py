"""Whether a controller answers at all. A plain TCP connection: an ipyparallel client would wait for its time-out."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from gpulayer_nb.errors import ClusterError, UsageError
from gpulayer_nb.plan.addresses import endpoint
from gpulayer_nb.records.connection_file import controller_address, read_if_whole

SECONDS = 3.0


def unreachable(info: dict[str, Any], seconds: float = SECONDS) -> str | None:
    """Why the controller of this connection file does not answer; None if it does."""
    host, port = controller_address(info), info["registration"]
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except OSError as error:
        return f"no controller answers at {endpoint(host, port)} ({error.strerror or error})"
    return None


def read_client_file(path: Path) -> dict[str, Any]:
    """A client's connection file.

    Raises:
        UsageError: it is none.
    """
    info = read_if_whole(path)
    if info is None:
        raise UsageError(f"There is no connection file {path}, or it is not whole. Next: give the path of a controller's file.")
    if not {"registration", "notification", "iopub"} <= info.keys():
        other = path.with_name(path.name.replace("-engine", "-client"))
        raise UsageError(f"{path} is no client's connection file of a controller. Next: `--target {other}`.")
    return info


def check_reachable(info: dict[str, Any], target: str) -> None:
    """Raises ClusterError if the controller does not answer."""
    why = unreachable(info)
    if why is not None:
        raise ClusterError(
            f"Cluster {target}: {why}. Its file may be of one that has ended. "
            "Next: start a controller (`gpulayer controller start`) and its workers, or see whether its ports are open."
        )
