"""The quickstart as a program: what a user would write in a notebook, run in a terminal with the public API alone."""
