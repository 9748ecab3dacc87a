"""The kernel's side: brings up clusters and groups, sends cells, waits, stops, recovers. Never imports torch."""
