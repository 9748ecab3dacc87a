"""Looks at this machine. Owns how each fact is found out; judges nothing. Every wait has a limit."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

import gpulayer_nb
from gpulayer_nb.doctor.facts import ControllerFacts, JupyterFacts, LimitFacts, MachineFacts, NetworkFacts, TorchFacts
from gpulayer_nb.link.address import address_towards
from gpulayer_nb.link.reach import unreachable
from gpulayer_nb.records.cluster_folder import clusters_root
from gpulayer_nb.records.connection_file import controller_address, read_if_whole
from gpulayer_nb.records.run_folder import default_root
from gpulayer_nb.worker.interfaces import interfaces

_IMPORT_SECONDS = 120.0  # torch from a cold disk
_COMMAND_SECONDS = 10.0
_EXTRAS = ("jupyterlab", "notebook", "scikit-learn")
_VARIABLES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
    "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "GPULAYER_HOME", "XDG_RUNTIME_DIR",
)  # fmt: skip
_TORCH = """
import json, torch, torch.distributed as dist
cuda = torch.cuda.is_available()
print(json.dumps({
    "version": torch.__version__,
    "cuda_devices": [torch.cuda.get_device_name(at) for at in range(torch.cuda.device_count())] if cuda else [],
    "cuda_build": torch.version.cuda or "",
    "backends": [name for name, there in (("gloo", dist.is_available() and dist.is_gloo_available()),
                                          ("nccl", dist.is_available() and dist.is_nccl_available())) if there],
    "mps": torch.backends.mps.is_available(),
}))
"""


def look(controller_file: Path | None = None) -> MachineFacts:
    """Everything; takes as long as importing torch."""
    controller = None if controller_file is None else controller_facts(controller_file)
    packages, too_old, optional = _packages()
    return MachineFacts(
        system=platform.system(),
        python=platform.python_version(),
        executable=sys.executable,
        version=gpulayer_nb.__version__,
        packages=packages,
        too_old=too_old,
        optional=optional,
        environment={name: os.environ[name] for name in _VARIABLES if name in os.environ},
        torch=torch_facts(),
        network=network_facts(controller.address if controller is not None else ""),
        limits=limit_facts(),
        jupyter=jupyter_facts(),
        controller=controller,
    )


def _packages() -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Versions, what is too old, and which are optional: from our own metadata."""
    from packaging.requirements import Requirement

    packages: dict[str, str] = {}
    too_old: dict[str, str] = {}
    try:
        wanted = [Requirement(text) for text in importlib.metadata.requires("gpulayer-nb") or ()]
    except importlib.metadata.PackageNotFoundError:  # run from a source tree
        wanted = []
    for requirement in wanted:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        packages[requirement.name] = version = _version(requirement.name)
        if version and not requirement.specifier.contains(version, prereleases=True):
            too_old[requirement.name] = str(requirement.specifier)
    for name in _EXTRAS:
        packages.setdefault(name, _version(name))
    return packages, too_old, list(_EXTRAS)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def torch_facts() -> TorchFacts:
    """Asked of a process of its own: a broken torch may take its process with it, and a good one takes seconds to load."""
    driver = [line for line in _output(["nvidia-smi", "-L"]).splitlines() if line.startswith("GPU ")]
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TORCH], capture_output=True, text=True, timeout=_IMPORT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return TorchFacts(error=f"it takes longer than {_IMPORT_SECONDS:.0f} s", driver_gpus=driver)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return TorchFacts(error=lines[-1] if lines else f"exit code {done.returncode}", driver_gpus=driver)
    return TorchFacts(**json.loads(done.stdout.splitlines()[-1]), driver_gpus=driver)


def network_facts(towards: str = "") -> NetworkFacts:
    """Args: towards: an address that this machine has to reach; empty: wherever the default route goes."""
    hostname = socket.gethostname()
    resolved = None
    with contextlib.suppress(OSError):
        resolved = str(socket.getaddrinfo(hostname, None)[0][4][0])
    outside = [towards] if towards else ["192.0.2.1", "2001:db8::1"]  # addresses for documentation: nothing is sent to them
    address = next(filter(None, map(address_towards, outside)), "127.0.0.1")
    ports = None
    with contextlib.suppress(OSError, ValueError):
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
        ports = (int(low), int(high))
    return NetworkFacts(
        hostname=hostname,
        interfaces={name: addresses for name, addresses in interfaces().items() if addresses},
        address=address,
        resolved=resolved,
        loopback_error=_bind_error("127.0.0.1"),
        address_error=_bind_error(address),
        ephemeral_ports=ports,
    )


def _bind_error(address: str) -> str:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as listener:
        try:
            listener.bind((address, 0))
            listener.listen(1)
        except OSError as error:
            return error.strerror or str(error)
    return ""


def limit_facts() -> LimitFacts:
    soft = hard = sys.maxsize
    with contextlib.suppress(ImportError):  # Windows
        import resource

        soft, hard = (value if value >= 0 else sys.maxsize for value in resource.getrlimit(resource.RLIMIT_NOFILE))
    shm = Path("/dev/shm")
    usage = shutil.disk_usage(shm) if shm.is_dir() else None
    home, runtime = default_root(), clusters_root()
    return LimitFacts(
        open_files=soft,
        open_files_hard=hard,
        shm_total=usage.total if usage else None,
        shm_free=usage.free if usage else None,
        shm_writable=not _write_error(shm) if usage else True,
        memory=_memory(),
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        home=str(home),
        home_error=_write_error(home),
        home_free=shutil.disk_usage(_existing(home)).free,
        runtime=str(runtime),
        runtime_error=_write_error(runtime),
    )


def _memory() -> int:
    whole: int = psutil.virtual_memory().total
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            return min(whole, int(Path(name).read_text()))
    return whole


def _existing(path: Path) -> Path:
    """The nearest folder that is there."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _write_error(folder: Path) -> str:
    """Why no file can be made there, or in the nearest folder above that exists."""
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def jupyter_facts() -> JupyterFacts:
    from jupyter_core.paths import jupyter_config_path, jupyter_path

    installed: dict[str, None] = {}
    for folder in map(Path, jupyter_path("labextensions")):
        for file in [*folder.glob("*/package.json"), *folder.glob("@*/*/package.json")]:
            installed[str(file.parent.relative_to(folder))] = None
    config = [*map(Path, jupyter_config_path()), Path(sys.prefix) / "share" / "jupyter" / "lab" / "settings"]
    disabled: list[str] = []
    servers: dict[str, bool] = {}
    for folder in reversed(config):  # what comes first counts most
        for file in (folder / "labconfig" / "page_config.json", folder / "page_config.json"):
            found = _json(file).get("disabledExtensions", {})
            names = found if isinstance(found, list) else [name for name, off in found.items() if off]
            disabled += names
        for file in sorted((folder / "jupyter_server_config.d").glob("*.json")):
            extensions = _json(file).get("ServerApp", {}).get("jpserver_extensions", {})
            servers.update({name: bool(on) for name, on in extensions.items()})
    return JupyterFacts(
        labextensions=sorted(installed),
        disabled=disabled,
        server_extensions=servers,
        has_panel=_carries_panel(),
        node=_output(["node", "--version"]).strip(),
        npm=_output(["npm", "--version"]).strip(),
    )


def _carries_panel() -> bool:
    """Whether the installed package brought a side panel along."""
    try:
        files = importlib.metadata.files("gpulayer-nb") or []
    except importlib.metadata.PackageNotFoundError:
        return False
    return any("labextensions" in file.parts for file in files)


def controller_facts(file: Path) -> ControllerFacts:
    """Whether a controller answers on the port that its connection file names first."""
    info = read_if_whole(file)
    if info is None:
        return ControllerFacts(file=str(file), error="there is no such file, or it is not whole")
    if not {"interface", "location", "registration"} <= info.keys():
        return ControllerFacts(file=str(file), error="it is no connection file of a controller")
    return ControllerFacts(file=str(file), address=controller_address(info), error=unreachable(info) or "")


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _output(command: Sequence[str]) -> str:
    """What a program says; nothing if there is no such program."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
