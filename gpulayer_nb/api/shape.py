"""Turns what a user writes for nodes and devices into a topology. Pure."""

from __future__ import annotations

import re
from typing import Any

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import Topology


def whole_number(value: Any, name: str) -> int:
    """An int from what was typed or passed.

    Raises:
        UsageError: it is none; Topology refuses those below 1.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d+", value.strip()):
        return int(value)
    if isinstance(value, (list, tuple)):
        raise UsageError(
            f"{name} is {value!r}; give the number of devices on each node, for example {len(value)}. Ranks take devices 0, 1, …"
        )
    raise UsageError(f"{name} is {value!r}; it is a whole number of at least 1, for example 2.")


def seconds(text: Any, name: str) -> float:
    """`00:10:00`, `10:00` or a number of seconds."""
    if isinstance(text, dict):  # Lightning takes timedelta's own arguments
        from datetime import timedelta

        return timedelta(**text).total_seconds()
    if hasattr(text, "total_seconds"):
        return float(text.total_seconds())
    parts = str(text).split(":")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 4 or any(number < 0 for number in numbers) or not any(numbers):
        raise UsageError(f"{name} is {text!r}; write hours:minutes:seconds as in 00:10:00, or a number of seconds.")
    scale = (1, 60, 3600, 86400)
    return sum(number * factor for number, factor in zip(reversed(numbers), scale, strict=False))


def topology_for(num_nodes: Any, devices: Any, present: Topology | None, *, accelerator: str, default_devices: int) -> Topology:
    """The shape asked for; what is left out is the present group's, else one node with `default_devices`.

    `devices` "auto" counts GPUs only where engines run; on the CPU it is the default.
    """
    if num_nodes is None and devices is None and present is not None:
        return present
    nodes = 1 if num_nodes is None else whole_number(num_nodes, "--nodes")
    each = default_devices if devices in (None, "auto") else whole_number(devices, "--devices")
    return Topology(nodes, each)


def check_target(target: str) -> str:
    """What it names is found when it is needed.

    Raises:
        UsageError: it cannot name anything.
    """
    if not isinstance(target, str) or not target.strip():
        raise UsageError(
            f"target is {target!r}; it is `local`, `remote`, the name of a running cluster, an ipyparallel profile, "
            "or the path of a connection file."
        )
    return target.strip()


def target_for(asked: str | None, present: str | None) -> str:
    """Where to run: what is left out is where the present ranks are, else this machine."""
    return asked or present or "local"
