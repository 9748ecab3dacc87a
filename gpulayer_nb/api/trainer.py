"""`glt.Trainer`: the same call on one device, on many, in a notebook and on a rank.

Lives in the kernel and on ranks. Owns the options; the training is in `train`, the sending in `client`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpulayer_nb.api.launch_options import checked_launch_options
from gpulayer_nb.api.shape import check_target, seconds, target_for, topology_for
from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.accelerator import check_accelerator
from gpulayer_nb.records.fit_options import FitOptions


class Trainer:
    """Fits a Module on `num_nodes` × `devices` ranks.

    The batch size of a loader is per rank: the global batch is `batch_size * devices * num_nodes`, and the learning rate is left
    as it is.

    Args:
        max_epochs: passes over the training data; -1 or None for no limit (then give `max_steps` or `max_time`).
        max_steps: optimizer steps after which the run ends.
        max_time: `"00:10:00"`, a number of seconds or a timedelta.
        accelerator: "auto", "cpu", "cuda" or "mps".
        devices: ranks on each node; "auto" is 1 on the CPU.
        num_nodes: nodes; on this machine they are simulated, each a group of processes.
        target: where to run: "local" (this machine), "remote", the name of a running cluster, an ipyparallel profile, or a
            connection file; by default where the notebook's ranks are, else "local".
        precision: "32", "bf16-mixed" or "16-mixed".
        logger: a CSVLogger, a TensorBoardLogger, anything with their three methods, or a list of them; True: a CSVLogger.
        default_root_dir: run folders are made in its `runs`.
        launch_options: `{"env": {"NAME": "value"}, "timeout": seconds}`: the ranks' environment and the limit of a collective.

    Raises:
        UsageError: a value that cannot be; says what to write.
    """

    def __init__(
        self,
        max_epochs: int | None = 1,
        *,
        max_steps: int | None = None,
        max_time: Any = None,
        accelerator: str = "auto",
        devices: int | str = "auto",
        num_nodes: int = 1,
        target: str | None = None,
        precision: str | int = "32",
        accumulate_grad_batches: int = 1,
        gradient_clip_val: float | None = None,
        sync_batchnorm: bool = False,
        find_unused_parameters: bool = False,
        seed: int | None = None,
        deterministic: bool = False,
        check_val_every_n_epoch: int = 1,
        limit_train_batches: int | float | None = None,
        limit_val_batches: int | float | None = None,
        limit_test_batches: int | float | None = None,
        limit_predict_batches: int | float | None = None,
        callbacks: Sequence[Any] | Any = (),
        logger: Any = None,
        default_root_dir: str | Path | None = None,
        enable_checkpointing: bool = True,
        use_distributed_sampler: bool = True,
        launch_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.topology = topology_for(num_nodes, devices, None, accelerator=accelerator, default_devices=1)
        self.accelerator = check_accelerator(accelerator)
        self.target = None if target is None else check_target(target)
        self.callbacks = list(callbacks) if isinstance(callbacks, Sequence) else [callbacks]
        self.logger = logger
        self._loggers()  # refuses what is no logger now, not on the ranks
        if self.callbacks:
            from gpulayer_nb.train.callback import check_callbacks

            check_callbacks(self.callbacks)
        self._last_run: Path | None = None
        self.default_root_dir = None if default_root_dir is None else Path(default_root_dir)
        self.launch_options = checked_launch_options(launch_options)
        self.options = FitOptions(
            max_epochs=None if max_epochs == -1 else max_epochs,
            max_steps=None if max_steps == -1 else max_steps,
            max_time_seconds=None if max_time is None else seconds(max_time, "max_time"),
            precision=str(precision),
            accumulate_grad_batches=accumulate_grad_batches,
            gradient_clip_val=gradient_clip_val,
            sync_batchnorm=sync_batchnorm,
            find_unused_parameters=find_unused_parameters,
            seed=seed,
            deterministic=deterministic,
            check_val_every_n_epoch=check_val_every_n_epoch,
            limit_train_batches=limit_train_batches,
            limit_val_batches=limit_val_batches,
            limit_test_batches=limit_test_batches,
            limit_predict_batches=limit_predict_batches,
            use_distributed_sampler=use_distributed_sampler,
            enable_checkpointing=enable_checkpointing,
        )

    def fit(
        self,
        model: Any,
        train_loader: Any = None,
        val_loader: Any = None,
        *,
        datamodule: Any = None,
        ckpt_path: str | Path | None = None,
        detach: bool = False,
    ) -> Any:
        """Trains `model` in place.

        Args:
            detach: return at once; the run goes on without this process, and its weights come with `run.attach()`.
            ckpt_path: go on where a checkpoint was written: its path, "last" or "best" (of this trainer's last run, else of the
                newest run that has one).

        Returns:
            From the notebook a Run. On a rank, where the group is up already, a FitResult with `.metrics` and `.state`.

        Raises:
            GpuLayerError: the run could not start, or failed; the model is then as before.
            RunStopped: the user stopped it; the model has the weights of the last common step.
        """
        if train_loader is None and datamodule is None:
            raise UsageError("Nothing to fit: no train_loader and no datamodule. Next: `trainer.fit(model, train_loader)`.")
        options = self._options(ckpt_path)
        context = _context()
        if context is None:
            return self._on_ranks("fit", model, train_loader, val_loader, datamodule, options, detach=detach)
        if detach:
            raise UsageError("A fit on a rank cannot be detached. Next: write `--detach` behind `%%gpulayer`.")
        from gpulayer_nb.train.fit import fit

        result = fit(model, train_loader, val_loader, options=options, datamodule=datamodule, **self._here(context))
        context.fits.append((model, result))
        return result

    def validate(self, model: Any, loader: Any = None, *, datamodule: Any = None, ckpt_path: str | Path | None = None) -> Any:
        """Runs `validation_step` on every sample once; `.metrics` of what it returns are the means over all samples.

        Args:
            ckpt_path: a checkpoint whose weights count instead of the model's, as in `fit`; the notebook's model stays as it is.

        Returns:
            From the notebook a Run, on a rank a FitResult.
        """
        return self._evaluate("validate", model, loader, datamodule, ckpt_path)

    def test(self, model: Any, loader: Any = None, *, datamodule: Any = None, ckpt_path: str | Path | None = None) -> Any:
        """As `validate`, with `test_step`."""
        return self._evaluate("test", model, loader, datamodule, ckpt_path)

    def predict(
        self, model: Any, loader: Any = None, *, datamodule: Any = None, ckpt_path: str | Path | None = None
    ) -> list[Any]:
        """Runs `predict_step`, or the forward of a plain model, on every batch once.

        Returns:
            The predictions of all batches in the data set's order, one entry per batch, in main memory. On ranks other than 0
            an empty list.
        """
        done = self._evaluate("predict", model, loader, datamodule, ckpt_path)
        predictions: list[Any] = done if isinstance(done, list) else done.values[0]
        return predictions

    def _evaluate(self, mode: str, model: Any, loader: Any, datamodule: Any, ckpt_path: str | Path | None) -> Any:
        if loader is None and datamodule is None:
            raise UsageError(f"Nothing to {mode}: no loader and no datamodule. Next: `trainer.{mode}(model, loader)`.")
        options = self._options(ckpt_path)
        context = _context()
        if context is None:
            return self._on_ranks(mode, model, None, loader, datamodule, options)
        if mode == "predict":
            from gpulayer_nb.train.predict import predict

            return predict(model, loader, options=options, datamodule=datamodule, **self._here(context))
        from gpulayer_nb.train.evaluate import evaluate

        split = "val" if mode == "validate" else mode
        return evaluate(model, loader, split=split, options=options, datamodule=datamodule, **self._here(context))

    def _options(self, ckpt_path: str | Path | None) -> FitOptions:
        return replace(self.options, resume=None if ckpt_path is None else str(ckpt_path))

    def _here(self, context: Any) -> dict[str, Any]:
        """What the rank this runs on knows.

        Raises:
            UsageError: the group has another shape than the one asked for.
        """
        if self.topology != context.topology and self.topology.world_size != 1:
            raise UsageError(
                f"This Trainer asks for {self.topology}, but it runs on a rank of {context.topology}. "
                f"Next: `Trainer(num_nodes={context.topology.num_nodes}, devices={context.topology.devices})`."
            )
        return {
            "place": context.place,
            "world_size": context.topology.world_size,
            "devices_per_node": context.topology.devices,
            "device": context.device,
            "report": context.report,
            "should_stop": context.should_stop,
            "callbacks": tuple(self.callbacks),
            "loggers": self._loggers(),
            "checkpoint_dir": context.checkpoint_dir,
            "log_dir": context.log_dir,
            "position": context.position,
        }

    def _loggers(self) -> tuple[Any, ...]:
        if self.logger is None or self.logger is False:
            return ()
        from gpulayer_nb.train.logger import check_loggers

        return check_loggers(self.logger)

    def _on_ranks(
        self,
        mode: str,
        model: Any,
        train_loader: Any,
        val_loader: Any,
        datamodule: Any,
        options: FitOptions,
        detach: bool = False,
    ) -> Any:
        from gpulayer_nb.api.attaching import detach as go_on_alone
        from gpulayer_nb.api.current import session
        from gpulayer_nb.api.execute import execute
        from gpulayer_nb.api.fit_request import fit_request
        from gpulayer_nb.ui.choose import choose_view

        request = fit_request(
            mode,
            {"model": model, "train_loader": train_loader, "val_loader": val_loader, "datamodule": datamodule},
            callbacks=self.callbacks,
            loggers=self._loggers(),
            topology=self.topology,
            accelerator=self.accelerator,
            target=target_for(self.target, session().target),
            options=options,
            launch_options=self.launch_options,
            root=self.default_root_dir,
            last_run=self._last_run,
            detach=detach,
        )
        run = go_on_alone(request) if detach else execute(session(), request, choose_view).run
        if mode == "fit":
            self._last_run = run.folder
        return run


def _context() -> Any:
    """The rank's surroundings, None in the notebook's kernel."""
    module = sys.modules.get("gpulayer_nb.train.context")
    return None if module is None else module.current()
