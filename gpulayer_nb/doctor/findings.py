"""What the facts mean: one finding each, with its mend. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpulayer_nb.doctor.facts import JupyterFacts, LimitFacts, MachineFacts, NetworkFacts, TorchFacts
from gpulayer_nb.plan.addresses import is_loopback
from gpulayer_nb.plan.topology import count

OK, NOTE, BROKEN = "ok", "note", "broken"
_ENGINE_FILES = 8  # descriptors of the controller for each engine
_MIB, _GIB = 2**20, 2**30
_LEAST_SHM = 64 * _MIB  # what containers have by default: the first batch of a loader worker fills it
_GOOD_SHM = _GIB
_LEAST_FREE = _GIB
_RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Finding:
    """`level` is "ok", "note" (works, but look at it) or "broken"; `mend` says what to do and is empty for "ok"."""

    topic: str
    level: str
    text: str
    mend: str = ""


def findings(facts: MachineFacts) -> list[Finding]:
    """All of them, in the order of the facts."""
    return [
        *_python(facts), *_packages(facts), *_torch(facts.torch, facts.system), *_network(facts.network), *_variables(facts),
        *_limits(facts.limits), *_jupyter(facts.jupyter, facts), *_controller(facts),
    ]  # fmt: skip


def is_well(found: list[Finding]) -> bool:
    return all(finding.level != BROKEN for finding in found)


def _python(facts: MachineFacts) -> Iterator[Finding]:
    yield Finding("python", OK, f"{facts.python} at {facts.executable}, gpulayer-nb {facts.version}")
    if facts.system == "Windows":
        yield Finding("system", BROKEN, "Windows cannot fork engines", "use WSL 2: install Python and gpulayer-nb inside of it")
    elif facts.system != "Linux":
        text = f"on {facts.system} nothing ends ranks whose notebook is killed"
        yield Finding("system", NOTE, text, "end notebooks by their menu, or use Linux")


def _packages(facts: MachineFacts) -> Iterator[Finding]:
    missing = [name for name, version in facts.packages.items() if not version]
    needed = [name for name in missing if name not in facts.optional]
    if needed:
        yield Finding("packages", BROKEN, f"{', '.join(needed)} not installed", f"pip install {' '.join(needed)}")
    if facts.too_old:
        text = ", ".join(f"{name} {facts.packages[name]} (needs {wanted})" for name, wanted in facts.too_old.items())
        mend = "pip install " + " ".join(f"'{name}{wanted}'" for name, wanted in facts.too_old.items())
        yield Finding("packages", BROKEN, text, mend)
    absent = [name for name in missing if name in facts.optional]
    if absent:
        yield Finding("packages", NOTE, f"{', '.join(absent)} not installed", f"if you want it: pip install {' '.join(absent)}")
    if not needed and not facts.too_old:
        there = ", ".join(f"{name} {version}" for name, version in facts.packages.items() if version)
        yield Finding("packages", OK, there)


def _torch(torch: TorchFacts, system: str) -> Iterator[Finding]:
    if torch.error:
        yield Finding("torch", BROKEN, f"cannot be imported: {torch.error}", "install torch as https://pytorch.org says")
        return
    if "gloo" not in torch.backends:
        text = "this build of torch has no gloo, so ranks on CPUs cannot talk"
        yield Finding("torch", BROKEN, text, "install a release build of torch")
    gpus = f"{count(len(torch.cuda_devices), 'GPU')}: {', '.join(torch.cuda_devices)}" if torch.cuda_devices else "no GPU"
    yield Finding("torch", OK, f"{torch.version}, {gpus}, backends {' '.join(torch.backends)}")
    if torch.driver_gpus and not torch.cuda_devices:
        if torch.cuda_build:
            text = f"the driver sees {count(len(torch.driver_gpus), 'GPU')}, torch (CUDA {torch.cuda_build}) sees none"
            yield Finding("gpu", BROKEN, text, "unset CUDA_VISIBLE_DEVICES, or update the driver for this CUDA version")
        else:
            text = f"{count(len(torch.driver_gpus), 'GPU')} here, but this torch is a CPU build"
            yield Finding("gpu", BROKEN, text, "install a CUDA build of torch, see https://pytorch.org")
    if torch.cuda_devices and "nccl" not in torch.backends:
        yield Finding("gpu", BROKEN, "this torch has no nccl, so GPUs cannot talk", "install a release build of torch for Linux")
    if torch.mps and system == "Darwin":
        yield Finding("gpu", NOTE, "MPS runs one rank only", "use `--accelerator cpu` for several")


def _network(network: NetworkFacts) -> Iterator[Finding]:
    listed = ", ".join(f"{name} {' '.join(addresses)}" for name, addresses in network.interfaces.items()) or "none"
    yield Finding("interfaces", OK, listed)
    if network.loopback_error:
        text = f"no port can be opened on 127.0.0.1: {network.loopback_error}"
        yield Finding("address", BROKEN, text, "bring the interface lo up: `ip link set lo up`")
    if is_loopback(network.address):
        text = "only loopback: this machine can run ranks for itself, not join others"
        yield Finding("address", NOTE, text, "connect a network if it is to be a worker of a cluster")
    elif network.address_error:
        text = f"no port can be opened on {network.address}: {network.address_error}"
        yield Finding("address", BROKEN, text, "choose another with `gpulayer worker start --advertise-address A`")
    else:
        yield Finding("address", OK, f"a worker here would advertise {network.address}")
    if network.resolved is None:
        text = f"the machine's own name {network.hostname} leads nowhere"
        yield Finding(
            "name", NOTE, text, f"add a line `127.0.0.1 {network.hostname}` to /etc/hosts; we use addresses, others the name"
        )
    elif is_loopback(network.resolved) and not is_loopback(network.address):
        text = f"{network.hostname} leads to {network.resolved}, so programs that advertise the name cannot be reached"
        yield Finding(
            "name", NOTE, text, "nothing for our own runs, which use addresses; scripts of yours need GLOO_SOCKET_IFNAME"
        )
    if network.ephemeral_ports is not None:
        low, high = network.ephemeral_ports
        if high - low < 1000:
            text = f"only {high - low + 1} ephemeral ports ({low}-{high}); gloo takes one for each pair of ranks"
            yield Finding("ports", BROKEN, text, "sysctl -w net.ipv4.ip_local_port_range='32768 60999'")
        else:
            yield Finding("ports", OK, f"ephemeral ports {low}-{high}: between workers all of them have to be open")


def _variables(facts: MachineFacts) -> Iterator[Finding]:
    variables = facts.environment
    left = [name for name in _RANK_VARIABLES if name in variables]
    if left:
        text = f"{', '.join(left)} set in this shell: programs take it for a rank of another run"
        yield Finding("variables", NOTE, text, f"unset {' '.join(left)}")
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        wanted = variables.get(name, "").lstrip("=^")
        known = [known for known in facts.network.interfaces if known == wanted or (name[0] == "N" and known.startswith(wanted))]
        if wanted and not known and not variables[name].startswith("^"):
            text = f"{name}={variables[name]}, and there is no such interface"
            yield Finding("variables", BROKEN, text, f"unset {name}, or take one of {', '.join(facts.network.interfaces)}")


def _limits(limits: LimitFacts) -> Iterator[Finding]:
    engines = limits.open_files_hard // _ENGINE_FILES
    if engines < 64:
        text = f"at most {limits.open_files_hard} open files: enough for about {engines} engines"
        yield Finding("open files", BROKEN, text, "raise the hard limit: `ulimit -Hn 65536` as root, or LimitNOFILE in systemd")
    else:
        text = f"{limits.open_files} open files, {limits.open_files_hard} at most: up to about {engines} engines here"
        yield Finding("open files", OK, text)
    yield from _shared_memory(limits)
    yield Finding("cpu", OK, f"{count(limits.cpus, 'core')}, {limits.memory / _GIB:.1f} GiB of memory")
    for topic, path, error in (
        ("run folders", limits.home, limits.home_error), ("runtime", limits.runtime, limits.runtime_error),
    ):  # fmt: skip
        if error:
            variable = "GPULAYER_HOME" if topic == "run folders" else "XDG_RUNTIME_DIR"
            yield Finding(topic, BROKEN, f"{path} cannot be written: {error}", f"set {variable} to a folder that can")
        elif topic == "run folders" and limits.home_free < _LEAST_FREE:
            text = f"{limits.home_free / _MIB:.0f} MiB free at {path}: checkpoints may not fit"
            yield Finding(topic, NOTE, text, "make room, or set GPULAYER_HOME to a larger disk")
        else:
            yield Finding(topic, OK, path)


def _shared_memory(limits: LimitFacts) -> Iterator[Finding]:
    """Where big buffers and the batches of loader workers go."""
    total, free = limits.shm_total, limits.shm_free
    mend = (
        "docker run --shm-size 4g; in Kubernetes an emptyDir with medium Memory at /dev/shm; "
        "else `mount -o remount,size=4g /dev/shm`"
    )
    if total is None or free is None:
        yield Finding("/dev/shm", NOTE, "there is none: big data go through the disk", "none needed if they are small")
    elif not limits.shm_writable:
        yield Finding("/dev/shm", BROKEN, "cannot be written, so loader workers cannot send batches", "chmod 1777 /dev/shm")
    elif total <= _LEAST_SHM:
        text = f"{total / _MIB:.0f} MiB in all: loader workers and big data end with a bus error"
        yield Finding("/dev/shm", BROKEN, text, mend)
    elif total < _GOOD_SHM or free < total // 10:
        text = f"{free / _MIB:.0f} of {total / _MIB:.0f} MiB free: little for large batches"
        yield Finding("/dev/shm", NOTE, text, mend if total < _GOOD_SHM else "remove what earlier programs left there")
    else:
        yield Finding("/dev/shm", OK, f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free")


def _jupyter(jupyter: JupyterFacts, facts: MachineFacts) -> Iterator[Finding]:
    if not facts.packages.get("jupyterlab") and not facts.packages.get("notebook"):
        text = "neither jupyterlab nor notebook is installed here"
        yield Finding("jupyter", NOTE, text, "pip install jupyterlab, unless your page is served from elsewhere")
        return
    for package, extension in (("anywidget", "anywidget"), ("ipywidgets", "@jupyter-widgets/jupyterlab-manager")):
        if not facts.packages.get(package):
            continue
        if extension not in jupyter.labextensions:
            text = f"the page's part of {package} is not installed for this Jupyter: live views fall back to text"
            yield Finding("extensions", BROKEN, text, f"pip install --force-reinstall {package} where Jupyter runs")
        elif extension in jupyter.disabled:
            yield Finding("extensions", BROKEN, f"{extension} is switched off", f"jupyter labextension enable {extension}")
        else:
            yield Finding("extensions", OK, f"{extension} is on")
    if jupyter.has_panel:
        yield from _panel(jupyter)
    else:
        text = "the side panel is not there: npm was missing when gpulayer-nb was built from its source tree"
        npm = "" if jupyter.npm else "install Node.js 20 or newer with npm, then "
        yield Finding("panel", NOTE, text, f"if you want it: {npm}pip install gpulayer-nb again")
    tools = ", ".join(f"{name} {version}" for name, version in (("node", jupyter.node), ("npm", jupyter.npm)) if version)
    yield Finding("node", OK, tools or "not installed; only developers of the side panel need it")


def _panel(jupyter: JupyterFacts) -> Iterator[Finding]:
    name = "gpulayer-nb"
    if name not in jupyter.labextensions:
        text = "the side panel is not installed for this Jupyter"
        yield Finding("panel", BROKEN, text, "pip install --force-reinstall gpulayer-nb where Jupyter runs")
    elif name in jupyter.disabled:
        yield Finding("panel", BROKEN, "the side panel is switched off", f"jupyter labextension enable {name}")
    elif not jupyter.server_extensions.get("gpulayer_nb", False):
        text = "the side panel's server part is off"
        yield Finding("panel", BROKEN, text, "jupyter server extension enable gpulayer_nb")
    else:
        yield Finding("panel", OK, "the side panel and its server part are on")


def _controller(facts: MachineFacts) -> Iterator[Finding]:
    controller = facts.controller
    if controller is None:
        return
    if controller.error:
        mend = "see whether it still runs, whether its ports are open between the machines, and whether the file is its own"
        yield Finding("controller", BROKEN, f"{controller.file}: {controller.error}", mend)
    else:
        yield Finding("controller", OK, f"{controller.file}: answers at {controller.address}")
