"""Clusters that the notebook itself brings up on other machines: through Slurm, through SSH."""
