"""A process that imports torch once and forks test ranks from it. Started as a script by the `ranks` fixture.

Reads one JSON line per job on stdin and answers with the ranks' process ids. Each rank runs the job's function inside a
gloo group and leaves its result in a file.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pickle
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

COLLECTIVE_SECONDS = 20  # longest wait of a collective in a test


@dataclass(frozen=True)
class Rank:
    """What a test function is given."""

    rank: int
    world_size: int
    devices: int


def run_rank(job: dict[str, Any], rank: int) -> None:
    import cloudpickle
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    folder, world_size, devices = Path(job["folder"]), job["world_size"], job["devices"]
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size), LOCAL_RANK=str(rank % devices), GROUP_RANK=str(rank // devices))
    try:
        if world_size > 1:
            store = dist.FileStore(str(folder / "store"), world_size)
            limit = timedelta(seconds=COLLECTIVE_SECONDS)
            dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=limit)
            store.add("connected", 1)
            while store.add("connected", 0) < world_size:  # a rank that left sooner would break the others' connecting
                time.sleep(0.002)
        function = pickle.loads((folder / "function").read_bytes())
        outcome: Any = ("result", function(Rank(rank, world_size, devices)))
    except BaseException as error:  # noqa: BLE001  # whatever it is, the test is told
        outcome = ("error", error, traceback.format_exc())
    try:
        data = cloudpickle.dumps(outcome)
    except Exception:  # noqa: BLE001  # an error that cannot be pickled is told as text
        data = pickle.dumps(("error", RuntimeError(repr(outcome[1])), traceback.format_exc()))
    (folder / f"unfinished-{rank}").write_bytes(data)
    os.replace(folder / f"unfinished-{rank}", folder / f"rank-{rank}")


def preload() -> None:
    """Import what ranks would otherwise import each: `torch._dynamo` alone, of the first optimizer, takes seconds."""
    for name in ("torch._dynamo", "torch.distributed", "torch.nn.parallel", "torch.utils.data", "gpulayer_nb.train.fit"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that a collection in a rank does not copy the pages it shares with this process


def serve() -> None:
    preload()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ranks are not waited for
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        pids = []
        for rank in range(job["world_size"]):
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.dup2(2, 1)  # what a rank prints is no answer of the server's
                status = 1
                try:
                    run_rank(job, rank)
                    status = 0
                finally:
                    os._exit(status)  # no teardown: torch's gloo may deadlock in it
            pids.append(pid)
        print(json.dumps(pids), flush=True)
    os._exit(0)  # torch's own exit takes seconds on a busy machine


if __name__ == "__main__":
    serve()
