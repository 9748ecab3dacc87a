"""What was found out about this machine: plain data between looking and judging. Sizes are in bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class TorchFacts:
    """`error` is why torch cannot be imported; `driver_gpus` are those nvidia-smi sees, whatever torch sees."""

    version: str = ""
    error: str = ""
    cuda_devices: Sequence[str] = ()  # names
    cuda_build: str = ""  # "12.8"; empty for a build without CUDA
    backends: Sequence[str] = ()  # of "gloo", "nccl"
    mps: bool = False
    driver_gpus: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class NetworkFacts:
    """`address` is what a worker here would advertise; `resolved` what this machine's own name leads to (None: nothing)."""

    hostname: str = ""
    interfaces: Mapping[str, Sequence[str]] = field(default_factory=dict)  # name → addresses
    address: str = "127.0.0.1"
    resolved: str | None = None
    loopback_error: str = ""  # why no port can be opened on 127.0.0.1
    address_error: str = ""  # why none can be opened on `address`
    ephemeral_ports: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class LimitFacts:
    open_files: int = 0  # soft limit
    open_files_hard: int = 0
    shm_total: int | None = None  # None: there is no /dev/shm
    shm_free: int | None = None
    shm_writable: bool = True
    memory: int = 0  # of the machine, or of its container if that has less
    cpus: int = 1
    home: str = ""  # where run folders go
    home_error: str = ""
    home_free: int = 0
    runtime: str = ""  # where clusters keep their sockets and logs
    runtime_error: str = ""


@dataclass(frozen=True, kw_only=True)
class JupyterFacts:
    """`labextensions` are those installed; `disabled` those switched off; `server_extensions` maps a name to whether it is on."""

    labextensions: Sequence[str] = ()
    disabled: Sequence[str] = ()
    server_extensions: Mapping[str, bool] = field(default_factory=dict)
    has_panel: bool = False  # this release carries a side panel
    node: str = ""
    npm: str = ""


@dataclass(frozen=True, kw_only=True)
class ControllerFacts:
    """`error` is why it cannot be reached."""

    file: str
    address: str = ""
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class MachineFacts:
    """`packages` maps each that we need to its version ("" if missing); `too_old` has "name needed" of those that do not do."""

    system: str = "Linux"
    python: str = ""
    executable: str = ""
    version: str = ""  # ours
    packages: Mapping[str, str] = field(default_factory=dict)
    too_old: Mapping[str, str] = field(default_factory=dict)
    optional: Sequence[str] = ()  # of `packages`, what one can do without
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that concern us
    torch: TorchFacts = TorchFacts()
    network: NetworkFacts = NetworkFacts()
    limits: LimitFacts = LimitFacts()
    jupyter: JupyterFacts = JupyterFacts()
    controller: ControllerFacts | None = None
