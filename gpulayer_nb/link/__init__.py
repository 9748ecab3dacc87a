"""The line from one process to a controller: calls and requests to engines, what engines publish. Knows no runs, no views."""
