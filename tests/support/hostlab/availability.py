"""Whether this machine can be several: namespaces are allowed, the tools are there. Run as a program it says so in one line.

`python tests/support/hostlab/availability.py` exits with 0 if hosts are possible, else prints why not and exits with 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PACKAGES = {  # program → Debian package
    "ip": "iproute2", "nft": "nftables", "ping": "iputils-ping",
    "slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "sbatch": "slurm-wlm", "munged": "munge",
    "sshd": "openssh-server", "ssh": "openssh-client",
}  # fmt: skip
NETWORK_TOOLS = ("ip", "nft", "ping")
SLURM_TOOLS = (*NETWORK_TOOLS, "slurmctld", "slurmd", "sbatch", "munged")
SSH_TOOLS = (*NETWORK_TOOLS, "sshd", "ssh")

NAMESPACES = ("--net", "--uts", "--ipc", "--mount", "--pid")


def why_impossible() -> str:
    """Empty where hosts are possible; otherwise what the system said."""
    if sys.platform != "linux":
        return f"namespaces are Linux's, this is {sys.platform}"
    if os.geteuid() != 0:
        return "not root"
    probe = "mount --make-rprivate / && mount -t tmpfs tmpfs /mnt && hostname probe"
    try:
        done = subprocess.run(
            ["unshare", *NAMESPACES, "--fork", "--", "sh", "-c", probe], capture_output=True, text=True, timeout=20
        )
    except FileNotFoundError:
        return "there is no `unshare`"
    return "" if done.returncode == 0 else f"the system refuses namespaces: {done.stderr.strip() or done.returncode}"


def missing_tools(tools: tuple[str, ...]) -> str:
    """Empty, or the command that installs what is missing."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    missing = sorted({PACKAGES[tool] for tool in tools if shutil.which(tool, path=path) is None})
    return f"apt-get install --no-install-recommends {' '.join(missing)}" if missing else ""


if __name__ == "__main__":
    reason = why_impossible()
    print(reason or "hosts are possible")
    sys.exit(1 if reason else 0)
