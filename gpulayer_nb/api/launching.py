"""A launch from start to end: agents up, output shown, verdict found.

Runs in the kernel or in a plain process. Owns the order only.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from gpulayer_nb.api.detached import note_driver
from gpulayer_nb.api.launch_pool import pool_for
from gpulayer_nb.api.launch_request import LaunchRequest
from gpulayer_nb.api.launch_verdict import STOPPED_EXIT_CODE, LaunchVerdict, judge
from gpulayer_nb.api.run import Run
from gpulayer_nb.api.runs import runs
from gpulayer_nb.client.agent_pool import AgentPool, AgentSite
from gpulayer_nb.client.interrupts import Interrupts
from gpulayer_nb.client.launch_driver import LaunchDriver
from gpulayer_nb.errors import RunFailed, RunStopped, UsageError
from gpulayer_nb.plan.topology import count
from gpulayer_nb.records.agent import AgentOrder
from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RankStatus, RunEnded, RunStarted
from gpulayer_nb.records.run_folder import RunFolder, default_root, new_run_id
from gpulayer_nb.ui.ranks_view import RanksView


def exit_code(request: LaunchRequest) -> int:
    """Runs a launch for a command: the error is on stderr, the result is the first failure's exit code."""
    run, verdict = execute(request)
    if run.error is not None:
        report = f"{run.error.report}\n\n" if isinstance(run.error, RunFailed) and run.error.report else ""
        sys.stderr.write(f"{report}gpulayer: {run.error}\n")
    return verdict.exit_code


def execute(request: LaunchRequest) -> tuple[Run, LaunchVerdict]:
    """Runs a launch to its end and shows it; what went wrong is in the run's `error`.

    Raises:
        GpuLayerError: it could not start.
    """
    started = _Launch(request)
    view = RanksView(started.history, fold=True)
    view.show()
    try:
        with Interrupts().taken() as interrupts:
            verdict = started.to_the_end(view.refresh, interrupts)
    except BaseException:
        view.dismiss()
        raise
    view.finish()
    return started.run, verdict


def in_background(request: LaunchRequest) -> Run:
    started = _Launch(request)
    threading.Thread(target=started.to_the_end, args=(lambda: None, Interrupts()), name="gpulayer-launch", daemon=True).start()
    return started.run


class _Launch:
    """One launch with its folder and history."""

    def __init__(self, request: LaunchRequest) -> None:
        self.request = request
        self.history = RunHistory()
        run_id = new_run_id()
        try:
            self.folder = RunFolder.create(run_id)
            self.folder.write_cell(request.script.read_text(errors="replace"))
            self.folder.write_facts(self._facts("starting"))
            note_driver(self.folder)
        except OSError as error:
            raise UsageError(
                f"The run folder {default_root() / 'runs' / run_id} cannot be written: {error.strerror}. "
                "Nothing was started. Next: make room, or set GPULAYER_HOME to a folder that can be written."
            ) from None
        self.run = Run(run_id, self.folder, self.history)

    def to_the_end(self, refresh: Callable[[], None], interrupts: Interrupts) -> LaunchVerdict:
        """Starts, waits, judges; the run's end is on record and on disk when this returns."""
        request, topology, name = self.request, self.request.topology, self.request.script.name
        pool: AgentPool | None = None

        def say(text: str) -> None:
            self.history.say(text)
            refresh()

        def look() -> None:
            self.folder.answer_report(driver.whereabouts)
            refresh()

        try:
            pool = pool_for(request.target, topology, request.accelerator, self.run.run_id, say)
            say(f"starting torchrun on {count(topology.num_nodes, 'node')}")
            sites = pool.prepare(request.script, request.folder, topology.num_nodes)
            self._begin(sites, pool.simulated)
            driver = LaunchDriver(
                pool, topology, self.history, self.folder,
                refresh=look, stops=lambda: interrupts.presses + self.folder.stops_asked(),
            )  # fmt: skip
            interrupts.count()
            outcome = driver.run(self._orders(sites), sites)
            self.run.exit_codes = outcome.exit_codes
            verdict = judge(outcome, topology, [site.worker for site in sites], name)
        except KeyboardInterrupt:
            verdict = LaunchVerdict("stopped", STOPPED_EXIT_CODE, RunStopped(f"stopped before {name} was started."))
        except BaseException as error:  # noqa: BLE001  raised by the caller, once agents are gone and the end is on disk
            verdict = LaunchVerdict("failed", 1, error)
        finally:
            if pool is not None:
                pool.close()
        self._end(verdict)
        return verdict

    def _orders(self, sites: list[AgentSite]) -> list[AgentOrder]:
        request = self.request
        return [
            AgentOrder(
                run_id=self.run.run_id,
                script=site.script,
                arguments=request.arguments,
                folder=site.folder,
                nodes=request.topology.num_nodes,
                devices=request.topology.devices,
                node_rank=node,
                master_addr=sites[0].address,
                master_port=sites[0].port,
                interface=site.interface,
                accelerator=request.accelerator,
                env={**site.env, **request.env},
            )
            for node, site in enumerate(sites)
        ]

    def _begin(self, sites: list[AgentSite], simulated: bool) -> None:
        topology = self.request.topology
        started = RunStarted(
            time=time.time(),
            run_id=self.run.run_id,
            mode="launch",
            num_nodes=topology.num_nodes,
            devices=topology.devices,
            backend="torchrun",  # the script chooses its backend
            accelerator=self.request.accelerator,
            simulated=simulated,
            workers=tuple(sites[place.node_rank].worker for place in topology.places()),
        )
        self.history.apply(started)
        self.folder.append(started)
        running = [RankStatus(time=time.time(), rank=rank, state="running") for rank in range(topology.world_size)]
        self.folder.append(*running)
        self.folder.write_facts(self._facts("running"))

    def _end(self, verdict: LaunchVerdict) -> None:
        self.run.error = verdict.error
        records = [verdict.failure] if verdict.failure is not None else []
        ended = RunEnded(time=time.time(), state=verdict.state, message=str(verdict.error or ""))
        began = self.history.run is not None
        for record in (*records, ended):
            self.history.apply(record)
        if not began:
            self.folder.remove()
            return
        self.folder.append(*records, ended)
        if isinstance(verdict.error, RunFailed) and verdict.error.tracebacks:
            self.folder.write_tracebacks(verdict.error.tracebacks)
        self.folder.write_facts(
            {
                **self._facts(verdict.state),
                "header": self.history.header_line(),
                "ended": time.time(),
                "elapsed_seconds": self.history.elapsed_seconds(),
                "error": str(verdict.error) if verdict.error else None,
                "exit_codes": self.run.exit_codes,
            }
        )
        runs.add(self.run)

    def _facts(self, state: str) -> dict[str, Any]:
        topology = self.request.topology
        return {
            "run_id": self.folder.path.name,
            "mode": "launch",
            "state": state,
            "num_nodes": topology.num_nodes,
            "devices": topology.devices,
            "script": str(self.request.script),
            "arguments": list(self.request.arguments),
            "begun": self.history.run.time if self.history.run else time.time(),
            "metrics": {},
        }
