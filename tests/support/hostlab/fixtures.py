"""pytest fixtures of the lab. A test folder that wants them imports them in its conftest.

With `GPULAYER_HOSTS=required` a missing lab is a failure; otherwise tests are skipped, but only where namespaces are impossible.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hostlab.availability import NETWORK_TOOLS, SLURM_TOOLS, SSH_TOOLS, missing_tools, why_impossible
from hostlab.kernel import notebook_on
from hostlab.lab import Lab
from hostlab.slurm import SlurmLab
from hostlab.ssh import SshLab

REQUIRED = "GPULAYER_HOSTS"


def require(tools: tuple[str, ...]) -> None:
    reason = why_impossible()
    if reason and os.environ.get(REQUIRED) != "required":
        pytest.skip(f"no hosts here: {reason}")
    if reason:
        pytest.fail(f"hosts are required and impossible: {reason}")
    if install := missing_tools(tools):
        pytest.fail(f"programs are missing. Next: {install}")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """head, a, b and c, for the tests of a module. A test that breaks something mends it, or asks for `mended_lab`."""
    require(NETWORK_TOOLS)
    with Lab() as made:
        yield made


@pytest.fixture
def mended_lab(lab: Lab) -> Iterator[Lab]:
    """The module's lab, mended after the test, failed or not."""
    yield lab
    lab.mend()


@pytest.fixture(scope="module")
def slurm_lab() -> Iterator[SlurmLab]:
    """Slurm on a and b, controlled from head."""
    require(SLURM_TOOLS)
    with Lab() as lab:
        made = SlurmLab(lab)
        made.up()
        yield made


@pytest.fixture(scope="module")
def ssh_lab() -> Iterator[SshLab]:
    """a and b can be logged into from head."""
    require(SSH_TOOLS)
    with Lab() as lab:
        made = SshLab(lab)
        made.up()
        yield made


__all__ = ["lab", "mended_lab", "notebook_on", "slurm_lab", "ssh_lab"]
