"""Faults as facts: each is found, says what is wrong, and how to mend it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpulayer_nb.doctor.command import as_text
from gpulayer_nb.doctor.facts import ControllerFacts, JupyterFacts, LimitFacts, MachineFacts, NetworkFacts, TorchFacts
from gpulayer_nb.doctor.findings import BROKEN, NOTE, OK, findings, is_well

GIB = 2**30
WELL = MachineFacts(
    python="3.11.7",
    executable="/venv/bin/python",
    version="0.1.0",
    packages={
        "torch": "2.13.0",
        "ipyparallel": "9.2.0",
        "anywidget": "0.11",
        "ipywidgets": "8.1",
        "jupyterlab": "4.6",
        "notebook": "7.6",
    },
    optional=("jupyterlab", "notebook"),
    torch=TorchFacts(version="2.13.0", backends=("gloo", "nccl"), cuda_devices=("H200", "H200"), cuda_build="12.8"),
    network=NetworkFacts(
        hostname="a",
        interfaces={"lo": ["127.0.0.1"], "eth0": ["10.77.0.11"]},
        address="10.77.0.11",
        resolved="10.77.0.11",
        ephemeral_ports=(32768, 60999),
    ),
    limits=LimitFacts(
        open_files=1024,
        open_files_hard=65536,
        shm_total=8 * GIB,
        shm_free=8 * GIB,
        memory=64 * GIB,
        cpus=16,
        home="/home/ada/runs",
        home_free=100 * GIB,
        runtime="/run/user/1000/gpulayer",
    ),
    jupyter=JupyterFacts(
        labextensions=("anywidget", "@jupyter-widgets/jupyterlab-manager", "gpulayer-nb"),
        server_extensions={"gpulayer_nb": True},
        has_panel=True,
        node="v20",
        npm="11",
    ),
)


def test_a_machine_in_order_has_nothing_to_mend():
    found = findings(WELL)
    assert {finding.level for finding in found} == {OK}
    assert not any(finding.mend for finding in found)
    assert is_well(found) and as_text(found).endswith("All is well.")


def torch(**changes):
    return replace(WELL, torch=replace(WELL.torch, **changes))


def network(**changes):
    return replace(WELL, network=replace(WELL.network, **changes))


def limits(**changes):
    return replace(WELL, limits=replace(WELL.limits, **changes))


def jupyter(**changes):
    return replace(WELL, jupyter=replace(WELL.jupyter, **changes))


@pytest.mark.parametrize(
    ("facts", "topic", "level", "text", "mend"),
    [
        (limits(shm_total=64 * 2**20, shm_free=2**20), "/dev/shm", BROKEN, "64 MiB in all", "--shm-size"),
        (limits(shm_total=GIB // 2, shm_free=GIB // 4), "/dev/shm", NOTE, "256 of 512 MiB free", "--shm-size"),
        (limits(shm_free=2**20), "/dev/shm", NOTE, "1 of 8192 MiB free", "remove what earlier programs left"),
        (limits(shm_writable=False), "/dev/shm", BROKEN, "cannot be written", "chmod 1777"),
        (limits(shm_total=None, shm_free=None), "/dev/shm", NOTE, "there is none", ""),
        (limits(open_files_hard=256), "open files", BROKEN, "about 32 engines", "ulimit -Hn"),
        (limits(home_error="Read-only file system"), "run folders", BROKEN, "Read-only file system", "set GPULAYER_HOME"),
        (limits(home_free=2**20), "run folders", NOTE, "1 MiB free", "make room"),
        (limits(runtime_error="Permission denied"), "runtime", BROKEN, "Permission denied", "set XDG_RUNTIME_DIR"),
        (torch(error="ImportError: libcudart.so.12"), "torch", BROKEN, "libcudart", "pytorch.org"),
        (torch(backends=("nccl",)), "torch", BROKEN, "no gloo", "release build"),
        (torch(backends=("gloo",)), "gpu", BROKEN, "no nccl", "release build"),
        (
            torch(cuda_devices=(), cuda_build="", driver_gpus=("GPU 0: H200",)),
            "gpu",
            BROKEN,
            "1 GPU here, but this torch is a CPU",
            "CUDA build",
        ),
        (
            torch(cuda_devices=(), driver_gpus=("GPU 0", "GPU 1")),
            "gpu",
            BROKEN,
            "sees 2 GPUs, torch (CUDA 12.8) sees none",
            "unset CUDA_VISIBLE",
        ),
        (network(address="127.0.0.1"), "address", NOTE, "only loopback", "connect a network"),
        (network(address_error="Cannot assign"), "address", BROKEN, "10.77.0.11: Cannot assign", "--advertise-address"),
        (network(loopback_error="Cannot assign"), "address", BROKEN, "127.0.0.1", "ip link set lo up"),
        (network(resolved="127.0.1.1"), "name", NOTE, "leads to 127.0.1.1", "GLOO_SOCKET_IFNAME"),
        (network(resolved=None), "name", NOTE, "leads nowhere", "/etc/hosts"),
        (network(ephemeral_ports=(60000, 60100)), "ports", BROKEN, "only 101 ephemeral ports", "sysctl"),
        (
            replace(WELL, environment={"RANK": "0", "MASTER_ADDR": "a"}),
            "variables",
            NOTE,
            "RANK, MASTER_ADDR set",
            "unset RANK MASTER_ADDR",
        ),
        (replace(WELL, environment={"GLOO_SOCKET_IFNAME": "ens9"}), "variables", BROKEN, "no such interface", "one of lo, eth0"),
        (
            replace(WELL, packages={**WELL.packages, "ipyparallel": ""}),
            "packages",
            BROKEN,
            "ipyparallel not installed",
            "pip install ipyparallel",
        ),
        (
            replace(WELL, too_old={"torch": ">=2.14"}),
            "packages",
            BROKEN,
            "torch 2.13.0 (needs >=2.14)",
            "pip install 'torch>=2.14'",
        ),
        (replace(WELL, packages={**WELL.packages, "notebook": ""}), "packages", NOTE, "notebook not installed", "if you want it"),
        (replace(WELL, system="Windows"), "system", BROKEN, "cannot fork", "WSL 2"),
        (replace(WELL, system="Darwin"), "system", NOTE, "Darwin", "Linux"),
        (
            jupyter(labextensions=("gpulayer-nb", "@jupyter-widgets/jupyterlab-manager")),
            "extensions",
            BROKEN,
            "anywidget is not installed for this Jupyter",
            "--force-reinstall",
        ),
        (jupyter(disabled=("anywidget",)), "extensions", BROKEN, "switched off", "jupyter labextension enable anywidget"),
        (
            jupyter(server_extensions={"gpulayer_nb": False}),
            "panel",
            BROKEN,
            "server part is off",
            "jupyter server extension enable",
        ),
        (jupyter(disabled=("gpulayer-nb",)), "panel", BROKEN, "switched off", "enable gpulayer-nb"),
        (jupyter(has_panel=False, npm=""), "panel", NOTE, "npm was missing", "install Node.js 20 or newer with npm, then pip"),
        (jupyter(has_panel=False), "panel", NOTE, "npm was missing", "if you want it: pip install gpulayer-nb again"),
        (
            replace(WELL, controller=ControllerFacts(file="c.json", error="no answer from 10.0.0.1 port 1")),
            "controller",
            BROKEN,
            "no answer",
            "ports are open",
        ),
    ],
)
def test_a_fault_is_found_with_its_mend(facts, topic, level, text, mend):
    found = findings(facts)
    (finding,) = [one for one in found if one.topic == topic and one.level == level]
    assert text in finding.text and mend in finding.mend and finding.mend
    assert is_well(found) == (level != BROKEN)
    assert as_text(found).endswith("1 broken." if level == BROKEN else "All is well.")


def test_interface_names_that_exist_are_no_fault():
    for value in ("eth0", "=eth0", "^lo"):
        assert is_well(findings(replace(WELL, environment={"NCCL_SOCKET_IFNAME": value})))
