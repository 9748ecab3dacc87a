"""Several hosts on this machine: see tests/support/hostlab."""

from hostlab.fixtures import lab, mended_lab, slurm_lab, ssh_lab

__all__ = ["lab", "mended_lab", "slurm_lab", "ssh_lab"]
