"""What the panel's tree shows of a cluster: one row for it, its workers and its ranks.

Runs in the Jupyter server. Pure: an observation in, plain values out. Owns which engine is which rank and the words of states.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from gpulayer_nb.records.rank_table import SILENT_SECONDS, RankRow
from gpulayer_nb.records.wire import EngineIdentity, name_of_key
from gpulayer_nb.records.worker_state import EngineDeath, EngineState, WorkerState
from gpulayer_nb.server.discovery import EMBEDDED, OPEN
from gpulayer_nb.server.live_run import LiveRun
from gpulayer_nb.server.observation import Observation, Usage

WAITING_SECONDS = 1.0  # in one collective
Row = dict[str, Any]


def cluster_rows(seen: Observation) -> tuple[Row, dict[str, Row]]:
    """The cluster's row, whose workers name their ranks by key, and the ranks' rows by key."""
    run = _run_that_is_on(seen.runs)
    ranks: dict[str, Row] = {}
    workers = []
    first = 0
    for state in sorted(seen.workers, key=lambda worker: (worker.worker, worker.pid)):
        rows = _ranks_of(seen, state, run, first)
        first += len(rows)
        keyed = {f"{seen.cluster.name}/{state.worker}/{row['slot']}": row for row in rows}
        ranks.update(keyed)
        workers.append(_worker_row(seen, state, list(keyed)))
    if seen.foreign:
        keyed = {f"{seen.cluster.name}/engines/{number}": _foreign_row(seen, number) for number in seen.foreign}
        ranks.update(keyed)
        workers.append(
            {"key": "engines", "name": "engines", "address": "", "facts": "ipyparallel", "offers": "", "ranks": list(keyed)}
        )
    row = {
        "name": seen.cluster.name,
        "kind": seen.cluster.kind,
        "state": _state(seen, run, ranks.values()),
        "run": run.run_id if run else None,
        "note": seen.trouble,
        "ours": seen.is_ours,
        "join": _join(seen),
        "workers": workers,
    }
    return row, ranks


def _run_that_is_on(runs: Iterable[LiveRun]) -> LiveRun | None:
    return next((run for run in reversed(tuple(runs)) if run.end is None and not run.is_left), None)


def _state(seen: Observation, run: LiveRun | None, ranks: Iterable[Row]) -> str:
    if seen.trouble:
        return "silent"
    if not seen.is_connected or any(worker.phase == "loading" for worker in seen.workers):
        return "starting"
    if run is not None or any(rank["state"] in ("running", "waiting") for rank in ranks):
        return "running"
    return "idle"


def _join(seen: Observation) -> str:
    """What to type on a machine that is to join; "" where none can."""
    folder = seen.cluster.folder
    return f"gpulayer worker start --controller {folder.engine_file}" if folder is not None and seen.cluster.kind == OPEN else ""


def _worker_row(seen: Observation, state: WorkerState, ranks: list[str]) -> Row:
    facts = state.facts
    gpus = next((usage.stats.gpu_name for usage in seen.usage.values() if usage.stats.gpu_name), None)
    count = int(facts.get("cuda_devices", 0))
    offers = f"{count} × {gpus or 'GPU'}" if count else ("simulated nodes" if seen.cluster.kind == EMBEDDED else "cpu")
    named = [f"torch {facts['torch']}" if facts.get("torch") else "", ", ".join(facts.get("backends", ()))]
    devices = state.devices
    return {
        "key": state.worker,
        "name": name_of_key(state.worker),
        "address": state.address,
        "facts": " · ".join(word for word in (state.address, *named) if word),
        "offers": offers,
        "free": max(0, devices - len(ranks)) if devices else None,
        "ranks": ranks,
    }


def _ranks_of(seen: Observation, state: WorkerState, run: LiveRun | None, first: int) -> list[Row]:
    """One row per slot: who is there, or how the last one there ended."""
    numbers = {(engine.worker, engine.slot, engine.pid): number for number, engine in seen.engines.items()}
    table = {row.pid: row for row in run.rows() if row.pid is not None} if run else {}
    engines = {engine.slot: engine for engine in state.engines}
    deaths = {death.slot: death for death in state.deaths if not death.expected}
    rows = []
    for position, slot in enumerate(sorted({*engines, *deaths})):
        engine = engines.get(slot)
        if engine is None:
            rows.append(_dead_row(slot, first + position, deaths[slot], table.get(deaths[slot].pid)))
        else:
            number = numbers.get((state.worker, slot, engine.pid))
            rows.append(_engine_row(seen, engine, number, first + position, table.get(engine.pid), run))
    return rows


def _dead_row(slot: int, position: int, death: EngineDeath, known: RankRow | None) -> Row:
    how = f"signal {death.signal}" if death.signal else f"exit code {death.exit_code}"
    often = ", often out of memory" if death.signal == 9 else ""
    return {
        **_blank(slot, known.place.rank if known else position, death.pid),
        "device": known.device if known else "",
        "state": "dead",
        "detail": f"Ended by {how}{often}. It is replaced before the next run.",
    }


def _engine_row(
    seen: Observation, engine: EngineState, number: int | None, position: int, known: RankRow | None, run: LiveRun | None
) -> Row:
    usage = seen.usage.get(engine.pid)
    row = _blank(engine.slot, known.place.rank if known else position, engine.pid)
    row["engine"] = number
    if known is not None and run is not None:
        row["node"], row["local_rank"], row["device"] = known.place.node_rank, known.place.local_rank, known.device
        row["step"], row["rate"] = known.global_step or None, _short(known.samples_per_second)
        row["rates"] = [_short(rate) for rate in run.rates(known.place.rank)]
    row["state"], row["detail"] = _rank_state(seen, engine, number, known, usage)
    if usage is not None:
        stats = usage.stats
        row["cpu"] = None if usage.cpu is None else round(usage.cpu)
        row["memory"], row["machine"] = _mebibytes(stats.memory_bytes), _mebibytes(stats.machine_bytes)
        row["gpu_memory"], row["gpu_total"] = _mebibytes(stats.gpu_memory_bytes), _mebibytes(stats.gpu_total_bytes)
        row["gpu"], row["gpu_name"] = stats.gpu_percent, stats.gpu_name
        if row["state"] == "waiting":  # of a rank that works both change all the time and say little
            row["collective"], row["entered"] = stats.collective, stats.entered
        row["device"] = row["device"] or ("cuda" if stats.gpu_name else "cpu")
    return row


def _rank_state(
    seen: Observation, engine: EngineState, number: int | None, known: RankRow | None, usage: Usage | None
) -> tuple[str, str]:
    if engine.uuid is None:
        return "starting", ""
    if known is not None and known.state in ("failed", "silent", "dead"):
        return known.state, known.detail
    mute = seen.now - (usage.answered if usage else seen.asked or seen.now)
    if seen.asked is not None and mute > SILENT_SECONDS:
        return "silent", f"has not answered for {mute:.0f} s"
    if usage is not None and usage.stats.collective and usage.waiting_seconds > WAITING_SECONDS:
        return "waiting", f"in {usage.stats.collective}, {usage.waiting_seconds:.0f} s"
    if known is not None and not known.done and known.state != "idle":
        return ("running" if known.state == "starting" else known.state), ""
    return ("running" if number in seen.busy else "idle"), ""


def _foreign_row(seen: Observation, number: int) -> Row:
    row = _blank(number, number, None)
    row["engine"], row["state"] = number, "running" if number in seen.busy else "idle"
    return row


def _blank(slot: int, rank: int, pid: int | None) -> Row:
    return {
        "slot": slot, "rank": rank, "engine": None, "pid": pid, "node": None, "local_rank": None, "device": "", "state": "idle",
        "detail": "", "step": None, "rate": None, "rates": [], "cpu": None, "memory": None, "machine": None, "gpu": None,
        "gpu_memory": None, "gpu_total": None, "gpu_name": None, "collective": None, "entered": 0,
    }  # fmt: skip


def identities(engines: Mapping[str, int]) -> tuple[dict[int, EngineIdentity], tuple[int, ...]]:
    """Our engines by ipyparallel's number, and the numbers of those that are not ours; supervisors are neither."""
    ours = {number: identity for uuid, number in engines.items() if (identity := EngineIdentity.parse(uuid)) is not None}
    foreign = tuple(sorted(number for uuid, number in engines.items() if not uuid.startswith(("gpl:", "gplw:"))))
    return ours, foreign


def _mebibytes(value: int | None) -> int | None:
    return None if value is None else value >> 20


def _short(value: float | None) -> float | None:
    """Three significant digits: what the panel shows, and half the bytes."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.3g}")
