"""Which worker hosts which rank, and which rank reads which sample: arithmetic only, standard library only."""
