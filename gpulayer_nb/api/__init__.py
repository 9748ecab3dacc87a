"""The Python face: Trainer, Run, the list of runs. Joins the client to the views; what the magics call."""
