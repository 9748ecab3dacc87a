"""One picture a file: plain numbers in, a `Picture` out. Runs wherever matplotlib does; knows no process group."""
