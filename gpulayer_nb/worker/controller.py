"""ipyparallel's controller as a child that cannot outlive us: `python -m gpulayer_nb.worker.controller`.

Runs in a process of its own. Owns the settings that differ from ipyparallel's defaults, each with its reason.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import resource

from gpulayer_nb.link.ipv6 import allow_ipv6_here
from gpulayer_nb.link.ports import quiet_ports
from gpulayer_nb.plan.addresses import ANY, bracketed, is_loopback
from gpulayer_nb.process import die_with_parent, forks_die_with_us

# An engine is registered when it has answered a heartbeat: with 3000 ms, the default, a start takes 1.5 s longer in the mean.
# Workers of other machines may be many, and each beat is work for the controller; the engines of a kernel's own are few.
HEARTBEAT_MILLISECONDS, OWN_HEARTBEAT_MILLISECONDS = 500, 250
PORTS = 18  # that ipyparallel's controller listens on
GIVEN_UP_SECONDS = 7.0  # without an answer; the lease of the engines ends before that (worker/lease.py)


def arguments(folder: str, ip: str, location: str | None = None, ports: str | None = None, *, joined: bool = False) -> list[str]:
    """The controller's command line. Away from loopback all is encrypted with the controller's key (CURVE).

    Args:
        joined: workers join it; otherwise it is a kernel's own.
    """
    period = HEARTBEAT_MILLISECONDS if joined else OWN_HEARTBEAT_MILLISECONDS
    given = [
        f"--profile-dir={folder}",
        f"--ip={'*' if ip == '::' else bracketed(ip)}",  # ipyparallel knows "every address" by this word
        f"--HeartMonitor.period={period}",
        f"--HeartMonitor.max_heartmonitor_misses={math.ceil(1000 * GIVEN_UP_SECONDS / period) - 1}",
        "--nodb",  # results are fetched once; the hub would keep every buffer in memory
        "--log-level=40",
    ]
    if not is_loopback(ip):
        given += ["--IPController.enable_curve=True"]
    if location:
        given += [f"--location={location}"]
    if ports:
        given += [f"--ports={ports}"]
    return given


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--ip", default="127.0.0.1")
    parser.add_argument("--location")
    parser.add_argument("--ports")
    parser.add_argument("--joined", action="store_true", help="workers join it; otherwise it is a kernel's own")
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    die_with_parent(options.parent)
    os.umask(0o077)  # ipyparallel writes the key files first and makes them private afterwards
    forks_die_with_us()  # its schedulers
    if "fork" in multiprocessing.get_all_start_methods():
        multiprocessing.set_start_method("fork")  # three times faster to start than a fork server; there are no threads yet
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # eight descriptors an engine: 1024 end near 100 engines
    if ":" in options.ip + (options.location or ""):
        allow_ipv6_here()
    from gpulayer_nb.worker.quiet_controller import QuietController

    ports = options.ports
    if ports is None and (found := quiet_ports("" if options.ip in ANY else options.ip, PORTS, os.getpid())):
        ports = f"{found.start}-{found.stop - 1}"
    QuietController.launch_instance(argv=arguments(options.folder, options.ip, options.location, ports, joined=options.joined))


if __name__ == "__main__":
    main()
