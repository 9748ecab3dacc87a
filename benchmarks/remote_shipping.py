"""A data set of 200 MB from the notebook to 4 ranks on two other hosts, at 1 Gbit/s, until each rank has added it up.

Hosts are network namespaces of this machine (`tests/support/hostlab`): needs root, iproute2 and the extra `test`. Both workers
are fed through the notebook's one line, so the least that anybody can do is two copies over it. The peer does just that: it
writes the bytes to a socket of each host at once, unencrypted, to a reader that throws them away.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from goal import Goal
from interleave import Benchmark, Measure

HERE = Path(__file__).parent
FLOATS = 50_000_000  # 200 MB as float32
RATE = "1gbit"
PORT = 10120
CELL = "%%ranks --nodes 2 --devices 2 --accelerator cpu --target {target}\nfloat(data.sum())"


@contextmanager
def contenders() -> Iterator[dict[str, Measure]]:
    sys.path.insert(0, str(HERE.parent / "tests" / "support"))
    from hostlab import Lab, notebook_on
    from lab_cluster import LabCluster

    with Lab() as lab:
        cluster = LabCluster(lab)
        cluster.start_controller()
        cluster.start_workers("a", "b")
        link = [sys.executable, str(HERE / "peers" / "raw_link.py")]
        readers = [lab[name].start([*link, "read", str(PORT)]) for name in "ab"]
        notebook = notebook_on(lab["head"])
        cell = CELL.format(target=cluster.client_file)
        try:
            notebook.ok(f"%load_ext gpulayer_nb\nimport torch; data = torch.randn({FLOATS})")
            notebook.ok(cell, 120)
            for name in ("head", "a", "b"):
                lab[name].port.limit(RATE)

            def ship() -> float:
                notebook.ok("data = data + 1")
                return _seconds(cell)

            def _seconds(source: str) -> float:
                began = time.perf_counter()
                notebook.ok(source, 120)
                return time.perf_counter() - began

            def raw() -> float:
                addresses = [f"{lab[name].address}:{PORT}" for name in "ab"]
                return float(lab["head"].run([*link, "write", str(4 * FLOATS), *addresses], timeout=120).stdout)

            yield {"two copies over the line": raw, "%%ranks, new data": ship, "%%ranks, the same data": lambda: _seconds(cell)}
        finally:
            notebook.end()
            _end(readers)
            cluster.end()


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.wait(10)


BENCHMARK = Benchmark(
    name="remote_shipping", unit="s", peer="two copies over the line", contenders=contenders,
    goals=(Goal(contender="%%ranks, new data", limit=1.2, alarm=2.0),),
)  # fmt: skip
