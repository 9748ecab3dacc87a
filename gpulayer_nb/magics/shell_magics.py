"""The magics as an IPython shell knows them: names, help, and where the work is.

Runs in the kernel. What a magic needs is imported when it is first used: `%load_ext` is for everybody who opens the notebook.
"""

from __future__ import annotations

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

from gpulayer_nb.magics.options import ranks_parser, training_parser


@magics_class
class CellMagics(Magics):
    @cell_magic
    def gpulayer(self, line: str, cell: str) -> None:
        from gpulayer_nb.magics.training import train

        train(self.shell, line, cell)

    @cell_magic
    def ranks(self, line: str, cell: str) -> None:
        from gpulayer_nb.magics.ranks import run_on_ranks

        run_on_ranks(self.shell, line, cell)

    gpulayer.__doc__ = "Train on several ranks from a cell.\n\n" + training_parser().format_help()
    ranks.__doc__ = "Run a cell on the ranks.\n\n" + ranks_parser().format_help()


@magics_class
class LineMagics(Magics):
    @line_magic
    def gpulayer(self, line: str) -> None:
        """`up [--nodes N --devices D]`, `down`, `workers`, `ranks`, `runs`, `attach [RUN]`, `stop [RUN]`, `stuck [RUN]`,

        `launch SCRIPT [--nodes N --devices D] [-- ARGS]`, `export [--to torchrun|slurm] FILE`.
        """
        from gpulayer_nb.magics.control import act

        act(line)
