"""The campaign drives real kernels."""

from real_notebook import Notebook, fresh_notebook, notebook

__all__ = ["Notebook", "fresh_notebook", "notebook"]
