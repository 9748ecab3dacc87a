"""An ipyparallel profile whose engines are gpulayer's workers: save as ipcluster_config.py in ~/.ipython/profile_NAME/.

`ipcluster start --profile=NAME --n=2` starts a controller and two workers, through whatever launcher is chosen here; then
`%%gpulayer --target NAME --nodes 2 --devices 2` runs on them. `--n` counts workers: one a node.
"""

import sys

c = get_config()  # noqa: F821  ipyparallel gives it to configuration files

DEVICES = 2  # ranks on each node

# local, mpi, pbs, lsf, sge, htcondor, …; the launchers' own settings go below as ipyparallel documents them
c.Cluster.engine_launcher_class = "local"
c.EngineLauncher.engine_cmd = [sys.executable, "-m", "gpulayer_nb", "worker", "start", f"--devices={DEVICES}"]

# The address of this machine that the nodes reach; away from loopback all is encrypted.
c.Cluster.controller_ip = "127.0.0.1"
c.Cluster.controller_args = [
    "--HeartMonitor.period=500",  # milliseconds
    "--HeartMonitor.max_heartmonitor_misses=13",  # workers end by themselves after six seconds without their controller
    "--nodb",  # the hub would keep every buffer in memory
]
if c.Cluster.controller_ip != "127.0.0.1":
    c.Cluster.controller_args += ["--IPController.enable_curve=True"]

# A batch system needs one task a node, for example PBS:
# c.PBSEngineSetLauncher.batch_template = """#!/bin/sh
# #PBS -N gpulayer
# #PBS -l select={n}:ncpus=2:mpiprocs=1
# #PBS -l place=scatter
# #PBS -V
# mpiexec -n {n} -ppn 1 {program_and_args}
# """
