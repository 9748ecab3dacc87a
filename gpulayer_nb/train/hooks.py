"""Finds which hooks a module and its callbacks define, once, so that the loop pays nothing for the others.

Runs in a rank. Must not know when hooks are called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gpulayer_nb.train.callback import Callback, defines
from gpulayer_nb.train.module import Module

Hook = Callable[..., Any]


class Hooks:
    """`hooks.of(name)`: what to call at that moment, callbacks first, each with the arguments it takes bound already."""

    def __init__(self, trainer: Any, module: Any, callbacks: Sequence[Callback]) -> None:
        self._trainer, self._module, self._callbacks = trainer, module, callbacks

    def of(self, name: str) -> tuple[Hook, ...]:
        return (*self.of_callbacks(name), *self.of_module(name))

    def of_module(self, name: str) -> tuple[Hook, ...]:
        if not isinstance(self._module, Module) and not hasattr(self._module, "training_step"):
            return ()  # a plain model that predicts: a method of such a name means something else there
        return (getattr(self._module, name),) if defines(self._module, name) else ()

    def of_callbacks(self, name: str) -> tuple[Hook, ...]:
        return tuple(
            partial(getattr(callback, name), self._trainer, self._module)
            for callback in self._callbacks
            if defines(callback, name)
        )

    def call(self, name: str, *arguments: Any) -> None:
        for hook in self.of(name):
            hook(*arguments)
