"""Notebooks for the tests of the API."""

from real_notebook import Notebook, fresh_notebook, notebook

__all__ = ["Notebook", "fresh_notebook", "notebook"]
