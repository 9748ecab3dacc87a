"""The panel's half in the Jupyter server: finds clusters and runs, watches them, acts on them. Never imports torch."""
