"""The training library: runs in one rank, or in one plain process. Knows torch; knows no Jupyter and no messages."""
