"""How names and values of the notebook reach the ranks, and how results come back. Used by client and engine."""
