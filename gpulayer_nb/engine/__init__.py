"""One rank's process: an ipyparallel engine that runs cells inside a process group."""
