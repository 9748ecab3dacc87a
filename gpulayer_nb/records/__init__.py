"""Plain data about a run: what crosses a process boundary, its history, its folder. Standard library only."""
