"""ipyparallel's controller as a child that cannot outlive us: `python -m gpulayer_nb.worker.controller`.

Runs in a process of its own. Owns the settings that differ from ipyparallel's defaults, each with its reason.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource

from gpulayer_nb.process import die_with_parent

HEARTBEAT_MILLISECONDS = 500  # an engine is registered only after a heartbeat: 3000, the default, makes starts 4 s longer


def arguments(folder: str, ip: str) -> list[str]:
    return [
        f"--profile-dir={folder}",
        f"--ip={ip}",
        f"--HeartMonitor.period={HEARTBEAT_MILLISECONDS}",
        "--nodb",  # results are fetched once; the hub would keep every buffer in memory
        "--log-level=40",
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--ip", default="127.0.0.1")
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    die_with_parent(options.parent)
    os.register_at_fork(after_in_child=die_with_parent)  # its schedulers too
    if "fork" in multiprocessing.get_all_start_methods():
        multiprocessing.set_start_method("fork")  # three times faster to start than a fork server; there are no threads yet
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # eight descriptors an engine: 1024 end near 100 engines
    from ipyparallel.controller.app import IPController

    IPController.launch_instance(argv=arguments(options.folder, options.ip))


if __name__ == "__main__":
    main()
