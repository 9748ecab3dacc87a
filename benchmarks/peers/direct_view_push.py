"""An ipyparallel user's way: 4 engines, `push` of a tensor. A line on standard input asks for one push of new data.

Argument: how many floats. Writes the seconds from the push until every engine has used the data.
"""

import sys
import time

import ipyparallel
import torch

cluster = ipyparallel.Cluster(n=4, log_level=40)
try:
    client = cluster.start_and_connect_sync(activate=False)
    client.wait_for_engines(4, timeout=120)
    view = client[:]
    view.execute("import torch", block=False).get(timeout=120)
    data = torch.randn(int(sys.argv[1]))
    for _ in sys.stdin:
        data = data + 1
        began = time.perf_counter()
        view.push({"data": data}, block=False).get(timeout=120)
        view.execute("float(data.sum())", block=False).get(timeout=60)
        sys.stdout.write(f"{time.perf_counter() - began}\n")
        sys.stdout.flush()
finally:
    cluster.stop_cluster_sync()
