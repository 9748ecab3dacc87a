"""The other end of `conftest.Rank`: reads commands on stdin, answers on stdout, keeps the notebook's names in `__main__`."""

from __future__ import annotations

import ast
import importlib
import os
import pickle
import struct
import sys
import traceback
from types import ModuleType
from typing import Any


def _serve(kind: str) -> None:
    from gpulayer_nb.shipping.returns import pack_return
    from gpulayer_nb.shipping.unpacker import Unpacker

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what cells print must not get between answers
    shell = None
    if kind == "ipython":
        from IPython.core.interactiveshell import InteractiveShell

        shell = InteractiveShell.instance()
        namespace: dict[str, Any] = vars(sys.modules["__main__"])
        namespace["get_ipython"] = lambda: shell
    else:
        sys.modules["__main__"] = ModuleType("__main__")
        namespace = vars(sys.modules["__main__"])
    unpacker = Unpacker(namespace)

    def run(source: str) -> Any:
        if "torch" in source:  # ranks have it under its name; imported late because most tests do without
            namespace.setdefault("torch", importlib.import_module("torch"))
        tree = ast.parse(source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<rank>", "exec", dont_inherit=True), namespace)
        return (
            eval(compile(ast.Expression(last.value), "<rank>", "eval", dont_inherit=True), namespace)
            if isinstance(last, ast.Expr)
            else None
        )

    def run_cell(source: str, number: int) -> str:
        """The traceback that IPython shows."""
        assert shell is not None
        shell.execution_count = number
        result = shell.run_cell(source, store_history=False)
        error = result.error_in_exec
        return "\n".join(shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__))

    def empty() -> None:
        for name in [name for name in namespace if not name.startswith("__")]:
            del namespace[name]
        unpacker.definitions.clear()

    def bring(names: tuple[str, ...]) -> object:
        return pack_return({name: namespace[name] for name in names}, unpacker, None, {"torch", "rank"})

    commands = {"unpack": lambda s: unpacker.unpack(s).names, "values": lambda s: namespace.update(unpacker.unpack(s).values),
                "run": run, "run_cell": run_cell, "bring": bring, "empty": empty}  # fmt: skip
    while len(head := sys.stdin.buffer.read(8)) == 8:
        command, arguments = pickle.loads(sys.stdin.buffer.read(struct.unpack("<Q", head)[0]))
        try:
            answer: tuple[bool, Any] = (True, commands[command](*arguments))
            data = pickle.dumps(answer)
        except Exception as error:  # noqa: BLE001  # the asking test gets it
            try:
                data = pickle.dumps((False, error))
            except Exception:  # noqa: BLE001  # an error of a class that exists only here: as text
                data = pickle.dumps((False, RuntimeError(traceback.format_exc())))
        answers.write(struct.pack("<Q", len(data)) + data)
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
