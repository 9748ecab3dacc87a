"""One pass over the training loader: forward, backward, optimizer step, and the exchange of metrics now and then.

Runs in a rank; the hottest code of the project. Between two exchanges it waits for nothing but the gradients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.pace import steps_until_flush
from gpulayer_nb.train.batch import sample_count, to_device
from gpulayer_nb.train.checkpoint import bare_model
from gpulayer_nb.train.hooks import Hooks
from gpulayer_nb.train.metric_exchange import MetricExchange, StepMeans
from gpulayer_nb.train.precision import Precision
from gpulayer_nb.train.reporter import Reporter
from gpulayer_nb.train.running_fit import RunningFit
from gpulayer_nb.train.step_module import StepModule, explain_backward_error, loss_of, unused_parameters_error

_OVERLAP_FROM = 8  # steps between two exchanges; where steps take longer, their values are shown at once


@dataclass(frozen=True)
class _OpenExchange:
    """An exchange under way: its means once called, what it is about."""

    means: Callable[[], StepMeans]
    steps: int
    seconds: float
    global_step: int  # the last of them
    batch_index: int


class TrainPass:
    """Holds what a training step needs, bound once; `run` is one epoch."""

    def __init__(
        self,
        module: Any,
        wrap: Callable[[], StepModule | DistributedDataParallel],
        running: RunningFit,
        precision: Precision,
        exchange: MetricExchange,
        reporter: Reporter,
        hooks: Hooks,
        should_stop: Callable[[], bool],
        deadline: float | None,
    ) -> None:
        assert running.optimization is not None
        self._module, self._running, self._precision = module, running, precision
        self._exchange, self._reporter, self._should_stop, self._deadline = exchange, reporter, should_stop, deadline
        self._optimizers = running.optimization.optimizers
        self._step_rules = tuple(rule for rule in running.optimization.rules if rule.interval == "step")
        self._metric_rules = tuple(rule for rule in self._step_rules if rule.needs_metric)
        self._wrap = wrap
        self._take_parameters()
        self._batch_count: int | None = None
        self._accumulate = running.options.accumulate_grad_batches
        self._clip = running.options.gradient_clip_val
        self._max_steps = running.options.max_steps
        self._moves = running.device.type != "cpu"
        self._batch_start = hooks.of("on_train_batch_start")
        self._batch_end = hooks.of("on_train_batch_end")
        self._before_zero = hooks.of("on_before_zero_grad")
        self._before_backward = hooks.of("on_before_backward")
        self._after_backward = hooks.of("on_after_backward")
        self._before_step = hooks.of("on_before_optimizer_step")
        self._pace = 1
        self._open: _OpenExchange | None = None
        self._flush_at = running.position.global_step + 1  # the first step is shown at once
        self._flushed_at = time.perf_counter()
        self._alone_since = self._flushed_at  # the end of the last step
        self.stop = False  # all ranks have agreed that the user wants to stop
        self.limit = False  # all ranks have agreed that a limit is reached or a callback has ended the fit

    def _take_parameters(self) -> None:
        """Wrap the module as it is now: which parameters there are, and which of them are trained, is fixed by that."""
        assert self._running.optimization is not None
        self._trained = _trained(self._module)
        self._parameters = self._running.optimization.parameters(self._module)
        self._forward = self._wrap()
        self._ddp = isinstance(self._forward, DistributedDataParallel)
        self._must_all_have_gradients = self._ddp and not self._running.options.find_unused_parameters
        self._no_sync = self._forward.no_sync if isinstance(self._forward, DistributedDataParallel) else nullcontext

    @property
    def parameters_changed(self) -> bool:
        """Whether layers were frozen, freed, added or replaced since the module was wrapped."""
        return _trained(self._module) != self._trained

    def wrap_anew(self) -> None:
        """Take the module with its present parameters. All ranks do it together."""
        self.release()
        self._take_parameters()

    def run(self, batches: Iterator[Any], first_batch: int, batch_count: int | None) -> bool:
        """Train on one epoch's batches; ends early at an agreed stop or at `max_steps`.

        Returns:
            Whether the epoch was finished.
        """
        position, log = self._running.position, self._running.metric_log
        log.in_steps = True
        self._flushed_at = self._alone_since = time.perf_counter()
        self._batch_count = batch_count
        index = first_batch
        finished = True
        if self._max_steps is not None and position.global_step >= self._max_steps:
            return False
        for group in self._groups(batches):
            self._step(group, index)
            index += len(group)
            if self._open is not None:
                self._finish_exchange()
            if position.global_step >= self._flush_at:
                self._begin_exchange()
                if self._pace < _OVERLAP_FROM:
                    self._finish_exchange()
            self._alone_since = time.perf_counter()
            if self.stop or self.limit or position.global_step == self._max_steps:
                finished = index == batch_count
                break
        self._flush()
        log.in_steps = False
        return finished

    def _groups(self, batches: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
        """The batches of each optimizer step: known in whole before its first backward, so the last, smaller one is right too."""
        if self._accumulate == 1:
            for batch in batches:
                yield (batch,)
            return
        while group := tuple(islice(batches, self._accumulate)):
            yield group

    def _step(self, group: tuple[Any, ...], index: int) -> None:
        """One optimizer step on the mean loss of the group's batches."""
        running = self._running
        samples = 0
        last = len(group) - 1
        for offset, batch in enumerate(group):
            if self._moves:
                batch = to_device(batch, running.device)
            running.position.batch_index = index + offset
            running.metric_log.weight = size = sample_count(batch)
            samples += size
            for hook in self._batch_start:
                hook(batch, index + offset)
            if offset < last:
                with self._no_sync():
                    output = self._forward_backward(batch, index + offset, len(group), first=offset == 0)
                for hook in self._batch_end:
                    hook(output, batch, index + offset)
            else:
                output = self._forward_backward(batch, index + offset, len(group), first=offset == 0)
        self._update()
        running.position.global_step += 1
        running.position.samples += samples
        running.epoch_samples += samples
        running.batches_done = index + last + 1
        if self._metric_rules:  # they look at this very step's means, the same on every rank
            running.metric_log.end_step(samples)
            self._flush()
        for rule in self._step_rules:
            if running.position.global_step % rule.frequency == 0:
                rule.step(running.callback_metrics)
        for hook in self._batch_end:
            hook(output, batch, index + last)
        if not self._metric_rules:
            running.metric_log.end_step(samples)

    def _forward_backward(self, batch: Any, index: int, share: int, *, first: bool) -> Any:
        output = self._forward(batch, index)
        if first:
            for hook in self._before_zero:
                for optimizer in self._optimizers:
                    hook(optimizer)
            for parameter in self._parameters:
                parameter.grad = None
        loss = output if output.__class__ is Tensor else loss_of(output)
        if share > 1:
            loss = loss / share
        if self._precision.scaler is not None:
            loss = self._precision.scaler.scale(loss)
        for hook in self._before_backward:
            hook(loss)
        if first:
            self._running.position.own_seconds += time.perf_counter() - self._alone_since
        try:
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        except RuntimeError as error:
            explained = explain_backward_error(loss)
            if explained is None:
                raise
            raise explained from error
        for hook in self._after_backward:
            hook()
        return output

    def _update(self) -> None:
        if self._must_all_have_gradients:
            for parameter in self._parameters:
                if parameter.grad is None:
                    self._refuse_unused()
                    break
        scaler = self._precision.scaler
        if self._clip is not None:
            if scaler is not None:
                for optimizer in self._optimizers:
                    scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(self._parameters, self._clip)
        for optimizer in self._optimizers:
            for hook in self._before_step:
                hook(optimizer)
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
        if scaler is not None:
            scaler.update()

    def _refuse_unused(self) -> None:
        names = [name for name, p in bare_model(self._module).named_parameters() if p.requires_grad and p.grad is None]
        if names:
            raise unused_parameters_error(names)

    def _flush(self) -> None:
        """Exchange at once what was logged since the last time. All ranks are at the same step here."""
        self._finish_exchange()
        self._begin_exchange()
        self._finish_exchange()

    def _begin_exchange(self) -> None:
        """Send off what was logged since the last time; the next step hides the time that it takes."""
        running, log, position = self._running, self._running.metric_log, self._running.position
        steps = log.open_steps
        if steps == 0:
            return
        if self._ddp and self.parameters_changed:
            raise UsageError(
                "parameters were frozen, freed or added within an epoch, where the exchange of gradients cannot follow: the "
                "ranks' models would drift apart. Next: do it in on_train_epoch_start."
            )
        now = time.perf_counter()
        seconds = now - self._flushed_at
        means = self._exchange.begin_steps(
            log.take_steps(),
            stop=self._should_stop(),
            limit=running.should_stop or (self._deadline is not None and now >= self._deadline),
            pace=steps_until_flush(seconds / steps, self._pace),
        )
        self._flushed_at = now
        self._open = _OpenExchange(means, steps, seconds, position.global_step, position.batch_index)

    def _finish_exchange(self) -> None:
        """Take in the means of the exchange that is under way, if one is."""
        sent, self._open = self._open, None
        if sent is None:
            return
        running, position = self._running, self._running.position
        means = sent.means()
        self._pace = means.pace
        self._flush_at = sent.global_step + means.pace
        self.stop, self.limit = self.stop or means.stop, self.limit or means.limit
        for name, column in means.values.items():
            if column[-1] is not None:
                running.callback_metrics[name] = column[-1]
        self._reporter.prog_bar(running.metric_log.prog_bar)
        self._reporter.steps(means, sent.global_step - sent.steps + 1, position.epoch)
        rate = means.samples / sent.seconds if sent.seconds > 0 else None
        self._reporter.progress("train", position.epoch, sent.batch_index, self._batch_count, sent.global_step, rate)

    def take_samples(self) -> int:
        """Samples that this rank has trained on since the last call."""
        samples, self._running.epoch_samples = self._running.epoch_samples, 0
        return samples

    def release(self) -> None:
        """Drop the gradients, which live in the exchange's buffers, and the wrapper around the module."""
        for parameter in self._parameters:
            parameter.grad = None
        self._forward = None  # type: ignore[assignment]  # the pass is over, or wraps anew
        self._no_sync = nullcontext


def _trained(module: nn.Module) -> list[tuple[int, bool]]:
    """Every parameter, and whether it is trained."""
    return [(id(parameter), parameter.requires_grad) for parameter in module.parameters()]
