"""One machine's supervisor: starts, watches, replaces and, without fail, ends its engines. Never imports torch."""
