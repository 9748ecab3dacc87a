"""A training cell as a script of its own, for torchrun or Slurm. Reads a notebook's names and cells; starts nothing."""
