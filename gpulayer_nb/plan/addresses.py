"""Which address a worker tells the others. Pure: interfaces and wishes in, an address or a refusal out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from gpulayer_nb.errors import UsageError

ANY = ("0.0.0.0", "::", "*")


def plain(address: str) -> str:
    """An address as the system writes it, without brackets: `[FD00:0::5]` is `fd00::5`. A name stays what it is."""
    try:
        return str(ip_address(address.removeprefix("[").removesuffix("]")))
    except ValueError:
        return address


def bracketed(address: str) -> str:
    """As it is written in a URL: an IPv6 address in brackets."""
    return f"[{address}]" if ":" in address else address


def endpoint(address: str, port: int) -> str:
    """`10.0.0.5:10101`, `[fd00::5]:10101`."""
    return f"{bracketed(address)}:{port}"


def is_loopback(address: str) -> bool:
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return address == "localhost"


def interface_of(address: str, interfaces: Mapping[str, Sequence[str]]) -> str | None:
    """The interface that has this address."""
    return next((name for name, addresses in interfaces.items() if address in addresses), None)


def choose_address(
    wanted: str | None, found: str | None, controller: str, interfaces: Mapping[str, Sequence[str]]
) -> tuple[str, str]:
    """The address to advertise and its interface.

    Args:
        wanted: what the user gave.
        found: the address this machine uses towards the controller.
        controller: the controller's address.
        interfaces: addresses of every interface of this machine.

    Raises:
        UsageError: no machine but this one could use it; lists the interfaces.
    """
    address = wanted or found
    listed = ", ".join(f"{name} {' '.join(addresses)}" for name, addresses in interfaces.items() if addresses) or "none"
    if address is None:
        raise UsageError(
            f"This machine has no way to the controller at {controller}. It has the interfaces {listed}. "
            "Next: connect it, or give the address that the other workers reach it by with `--advertise-address`."
        )
    interface = interface_of(address, interfaces)
    if interface is None:
        raise UsageError(
            f"{address} is no address of this machine. It has the interfaces {listed}. "
            "Next: `--advertise-address` with one of these that the other workers can reach."
        )
    if is_loopback(address) and not is_loopback(controller):
        raise UsageError(
            f"{address} is a loopback address: other workers would reach themselves by it. This machine has the interfaces "
            f"{listed}. Next: `--advertise-address` with one of these that the other workers can reach."
        )
    return address, interface
