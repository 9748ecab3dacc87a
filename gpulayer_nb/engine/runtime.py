"""Runs a rank's part of a run, and answers questions about it meanwhile.

Runs in each rank's process: `run` on the main thread, `answer` on the control thread. Owns the order of things: group up,
names in, cell, fit, result out. Must not know the kernel on the other side.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import random
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO, cast

import torch

from gpulayer_nb.engine import failure, looking
from gpulayer_nb.engine.cell import PREDEFINED, CellOutcome, run_cell
from gpulayer_nb.engine.collectives import CollectiveLog
from gpulayer_nb.engine.evaluating import evaluate_names
from gpulayer_nb.engine.fitting import fit_names
from gpulayer_nb.engine.group import GroupKeeper, device_of
from gpulayer_nb.engine.interrupts import InterruptGate
from gpulayer_nb.engine.publisher import Publisher
from gpulayer_nb.engine.stats import rank_stats
from gpulayer_nb.engine.status import Pulse
from gpulayer_nb.engine.user_modules import UserModules
from gpulayer_nb.errors import ShippingError
from gpulayer_nb.records import wire
from gpulayer_nb.records.record import RankDone, RankFailed
from gpulayer_nb.records.run_folder import RunFolder, default_root
from gpulayer_nb.records.run_spec import RankResult, RunSpec
from gpulayer_nb.records.whereabouts import Frame, Whereabouts
from gpulayer_nb.shipping.blobs import BlobStore
from gpulayer_nb.shipping.returns import pack_return
from gpulayer_nb.shipping.unpacker import Unpacker
from gpulayer_nb.train import context as rank_context
from gpulayer_nb.train.position import FitPosition

_STACK_FRAMES = 60  # innermost ones: enough to reach the cell from torch's depths


class Runtime:
    """Everything one rank holds between runs."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self.group = GroupKeeper()
        self.group.face_scripts()
        self._gate = InterruptGate()
        self._collectives = CollectiveLog(self.group.refuse_if_cut)
        self._collectives.watch()
        self._stop = threading.Event()
        self._has_names = False
        self._announced: RankFailed | None = None
        self._rank = -1
        self._position = FitPosition()
        self._publisher: Publisher | None = None
        self._blobs = ""
        self._modules = UserModules()
        self._unpacker = Unpacker(kernel.shell.user_ns, lambda ref: BlobStore(self._blobs).load(ref))
        for prompt in ("ps1", "ps2", "ps3"):  # IPython's; Lightning takes a process that has one for a console without ranks
            sys.__dict__.pop(prompt, None)
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))  # as torchrun does: ranks share the cores

    # main thread

    def run(self, spec: RunSpec) -> RankResult:
        """Runs one rank's part; never raises: what goes wrong is in the result, and was published before."""
        folder = RunFolder(Path(spec.folder)) if spec.folder else RunFolder(default_root() / "runs" / spec.run_id)
        folder.logs.mkdir(parents=True, exist_ok=True)
        self._blobs = spec.blobs
        self._modules.use(spec.modules)
        if spec.cwd and os.path.isdir(spec.cwd):  # relative paths mean the same wherever the folder is the same
            os.chdir(spec.cwd)
        self._stop.clear()
        self._collectives.start_run()
        self._rank = spec.place.rank
        self._has_names, self._announced = False, None
        self._position = FitPosition()
        rank = spec.place.rank
        publisher = Publisher(
            self._kernel.session,
            self._kernel.iopub_socket,
            spec.run_id,
            rank,
            folder.rank_records(rank),
        )
        self._publisher = publisher
        try:
            with _echo_to(folder.log(rank)):
                result = replace(self._run(spec, folder, publisher), has_group=self.group.is_up, has_names=self._has_names)
                sys.stdout.flush()
                sys.stderr.flush()
            publisher.publish(RankDone(rank=rank, state=result.state))
        finally:
            publisher.close()
        return result

    def _run(self, spec: RunSpec, folder: RunFolder, publisher: Publisher) -> RankResult:
        pulse: Pulse | None = None
        text = ""
        try:
            with self._gate.open():
                self.group.ensure(spec.group, spec.topology, spec.place)
                device = device_of(spec.accelerator, spec.place)
                pulse = Pulse(spec.place.rank, device, publisher.publish, self._position)
                pulse.start()
                context = rank_context.RankContext(
                    topology=spec.topology,
                    place=spec.place,
                    device=device,
                    report=publisher.publish,
                    should_stop=self._stop.is_set,
                    position=self._position,
                    checkpoint_dir=self._checkpoint_dir(spec, folder),
                    log_dir=folder.path,
                )
                with rank_context.active(context):
                    return self._run_in_context(spec, context, lambda error: self._announce(spec, publisher, error))
        except _CellError as wrapped:
            error, text = wrapped.error, wrapped.text
        except BaseException as caught:  # noqa: BLE001  user code may raise anything; the rank must stay up and say so
            error = caught
        finally:
            if pulse is not None:
                pulse.stop()
        return self._fail(spec, publisher, error, text)

    def _announce(self, spec: RunSpec, publisher: Publisher, error: BaseException) -> bool:
        """Says that this rank has failed, and lets its peers go; True if the error deserves a drawn traceback."""
        was_cut = self.group.is_up is False
        record = self._announced = failure.describe(self._kernel.shell, spec.place.rank, error, was_cut, self._position)
        sys.stdout.flush()
        sys.stderr.flush()
        publisher.publish(record)
        self.group.abort()  # peers that wait for this rank leave their collective at once
        return not record.consequence

    def _fail(self, spec: RunSpec, publisher: Publisher, error: BaseException, text: str) -> RankResult:
        if self._announced is None:
            self._announce(spec, publisher, error)
        record: RankFailed = cast(RankFailed, self._announced)
        if not record.consequence:
            record = replace(record, traceback=text or failure.draw(self._kernel.shell, error))
            publisher.publish(record)  # takes the place of the one without
        failure.forget(error)
        for name in ("last_value", "last_traceback", "last_exc"):
            setattr(sys, name, None)  # they would keep the cell's frames, and so the model, alive
        return RankResult(rank=spec.place.rank, state="failed", failure=record)

    def _run_in_context(
        self, spec: RunSpec, context: rank_context.RankContext, announce: Callable[[BaseException], bool]
    ) -> RankResult:
        namespace: dict[str, Any] = self._unpacker.namespace
        namespace.update(_predefined(spec, context))
        values: dict[str, Any] = {}
        shipment = _shipment(spec)
        if shipment is not None:
            values = self._unpacker.unpack(shipment).values
        self._has_names = True
        if spec.mode != "ranks":
            _seed_start(spec.options.seed)
        model_before = namespace.get(spec.names.model)
        outcome = CellOutcome()
        if spec.source:
            outcome = run_cell(self._kernel.shell, spec.source, spec.cell, self._gate.shut, announce)
            if outcome.error is not None:
                raise _CellError(outcome.error, outcome.traceback)
        if spec.mode == "ranks":
            return self._value(spec, outcome)
        if spec.mode in ("validate", "test", "predict"):
            return self._evaluated(spec, context, values)
        called_fit = bool(context.fits)
        if not called_fit:
            fit_names(values if spec.mode == "fit" else namespace, spec.names, spec.parts, spec.options, context)
        return self._fitted(spec, context, model_before if spec.mode == "train" else context.fits[-1][0], called_fit)

    def _fitted(self, spec: RunSpec, context: rank_context.RankContext, model_before: Any, called_fit: bool) -> RankResult:
        """Rank 0 sends the model back: its weights if the notebook has it, the whole of it if this cell has made it."""
        model, result = context.fits[-1]
        in_place, packed, callbacks = model is model_before, None, None
        if spec.place.rank == 0:
            callbacks = pickle.dumps(result.callbacks) if result.callbacks else None
            try:
                packed = self._pack(spec, _on_cpu(model.state_dict()) if in_place else model)
            except ShippingError as error:
                raise ShippingError(_not_brought_back(spec.names.model, error, context.checkpoint_dir)) from error
        return RankResult(
            rank=spec.place.rank,
            state=result.state,
            model=packed,
            model_in_place=in_place,
            callbacks=callbacks,
            metrics=result.metrics,
            global_step=result.global_step,
            called_fit=called_fit,
        )

    def _evaluated(self, spec: RunSpec, context: rank_context.RankContext, values: dict[str, Any]) -> RankResult:
        """Rank 0 sends back what was predicted; the model is as before."""
        result, predictions = evaluate_names(spec.mode, values, spec.names, spec.options, context)
        value = self._pack(spec, predictions) if spec.place.rank == 0 and predictions is not None else None
        return RankResult(rank=spec.place.rank, state=result.state, metrics=result.metrics, value=value)

    def _pack(self, spec: RunSpec, value: Any) -> bytes:
        blobs = BlobStore(spec.blob_folder) if spec.blob_folder else None
        return pickle.dumps(pack_return({"value": value}, self._unpacker, blobs, reserved=PREDEFINED))

    def _value(self, spec: RunSpec, outcome: CellOutcome) -> RankResult:
        """The last expression's value: its text always, itself if it is asked for."""
        rank = spec.place.rank
        if not outcome.has_value:
            return RankResult(rank=rank, state="finished")
        formatted, _ = self._kernel.shell.display_formatter.format(outcome.value, include=["text/plain"])
        text = formatted.get("text/plain", repr(outcome.value))
        value, value_error = None, None
        if spec.collect:
            try:
                value = self._pack(spec, outcome.value)
            except Exception as error:  # noqa: BLE001  any type's own pickling code may raise anything
                value_error = _reason(error)
        return RankResult(rank=rank, state="finished", value_text=text, value=value, value_error=value_error)

    def _checkpoint_dir(self, spec: RunSpec, folder: RunFolder) -> Path | None:
        if not spec.options.enable_checkpointing:
            return None
        return Path(spec.options.checkpoint_dir) if spec.options.checkpoint_dir else folder.checkpoints

    # control thread

    def answer(self, request: str, content: dict[str, Any]) -> dict[str, Any]:
        """The reply to a control-channel request."""
        publisher = self._publisher
        current = publisher.run_id if publisher else None
        asked = content.get("run_id")
        if request == wire.STATS:
            return rank_stats(current, self._collectives).to_dict()
        if request == wire.COMPLETE:
            return looking.complete(self._unpacker.namespace, content["text"])
        if request == wire.INSPECT:
            return looking.inspect(self._kernel.shell, content["name"], content["detail_level"])
        if request == wire.STACKS:
            return self._whereabouts().to_dict()
        if asked is not None and asked != current:
            return {"stale": True}  # the run asked about is not the one that is on
        if request == wire.ABORT:
            return {"cut": self.group.abort()}
        if request == wire.INTERRUPT:
            return {"interrupted": self._gate.interrupt()}
        if request == wire.STOP:
            self._stop.set()
            return {}
        if request == wire.HISTORY:
            return {"batches": publisher.since(int(content.get("since", 0))) if publisher else []}
        return {"unknown": request}

    def _whereabouts(self) -> Whereabouts:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        cells: dict[str, int] = self._kernel.shell.compile._filename_map
        stack = traceback.extract_stack(frame) if frame else []
        return Whereabouts(
            rank=self._rank,
            busy=self._gate.is_open,
            collective=self._collectives.inside,
            entered=self._collectives.entered,
            global_step=self._position.global_step,
            stack=tuple(
                Frame(function=f.name, line=f.lineno or 0, file=f.filename, cell=cells.get(f.filename))
                for f in stack[-_STACK_FRAMES:]
            ),
        )


class _CellError(Exception):
    """Carries a cell's own exception together with IPython's drawing of it."""

    def __init__(self, error: BaseException, text: str) -> None:
        super().__init__(str(error))
        self.error, self.text = error, text


def _runtime() -> Runtime:
    from gpulayer_nb.engine.app import Engine  # the app imports this module

    runtime: Runtime = Engine.instance().kernel.runtime
    return runtime


def run(payload: bytes) -> bytes:
    """Called by name from the kernel: pickled RunSpec in, pickled RankResult out."""
    return pickle.dumps(_runtime().run(pickle.loads(payload)))


def open_store(host: str) -> int:
    """Called by name from the kernel, on rank 0."""
    return _runtime().group.open_store(host)


def _shipment(spec: RunSpec) -> Any:
    if spec.shipment_path:
        return pickle.loads(Path(spec.shipment_path).read_bytes())
    return pickle.loads(spec.shipment) if spec.shipment else None


def _predefined(spec: RunSpec, context: rank_context.RankContext) -> dict[str, Any]:
    return {
        "rank": spec.place.rank,
        "local_rank": spec.place.local_rank,
        "node_rank": spec.place.node_rank,
        "world_size": spec.topology.world_size,
        "device": context.device,
        "dist": torch.distributed,
        "torch": torch,
    }


def _seed_start(seed: int | None) -> None:
    """Before a training cell runs: with a seed every rank makes the same start weights."""
    if seed is None:
        return
    random.seed(seed)
    torch.manual_seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)


def _reason(error: Exception) -> str:
    """Why something cannot be pickled, without the advice, which is for what goes to the ranks."""
    text = str(error)
    return text.partition(" cannot be sent to the ranks: ")[2].partition(" Next:")[0] or text


def _not_brought_back(name: str, error: ShippingError, checkpoints: Path | None) -> str:
    kept = f" Its weights are in {checkpoints}." if checkpoints is not None else ""
    return (
        f"The training is done, but `{name}` cannot be sent to the notebook: {_reason(error)}{kept} "
        "Next: keep that out of the model, or load the weights into a model of the notebook."
    )


def _on_cpu(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value.detach().cpu() if isinstance(value, torch.Tensor) else value for name, value in state.items()}


@contextlib.contextmanager
def _forgiving(path: Path) -> Iterator[TextIO]:
    """A file to append to. A full disk costs what does not fit: closing writes the rest, and may fail."""
    log = path.open("a", buffering=1)
    try:
        yield log
    finally:
        with contextlib.suppress(OSError):
            log.close()


@contextlib.contextmanager
def _echo_to(path: Path) -> Iterator[None]:
    """All that this rank writes goes to its log too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _forgiving(path) as log:
        streams = [stream for stream in (sys.stdout, sys.stderr) if hasattr(stream, "echo")]
        before = [stream.echo for stream in streams]
        for stream in streams:
            stream.echo = log
        try:
            yield
        finally:
            for stream, echo in zip(streams, before, strict=True):
                stream.flush()
                stream.echo = echo
    gc.collect(0)
