"""Notebooks for the tests of the magics."""

from real_notebook import Notebook, fresh_notebook, notebook
from small_disk import small_disk

__all__ = ["Notebook", "fresh_notebook", "notebook", "small_disk"]
