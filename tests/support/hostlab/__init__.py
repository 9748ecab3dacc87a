"""Several machines on one: hosts with a network, a name, processes and folders of their own, on a switch whose cables tests pull.

Linux, as root. Everything lives in namespaces that belong to processes of ours and ends with them: a killed test run leaves
nothing behind, and labs of several test runs do not know each other.

```python
with Lab() as lab:                                  # head 10.77.0.1, a 10.77.0.11, b 10.77.0.12, c 10.77.0.13
    lab["a"].run(["ping", "-c1", "b"])
    lab["b"].port.pull_cable()
```
"""

from hostlab.availability import missing_tools, why_impossible
from hostlab.host import Host, HostProcess
from hostlab.kernel import notebook_on
from hostlab.lab import Lab
from hostlab.port import Port
from hostlab.slurm import SlurmLab
from hostlab.ssh import SshLab

__all__ = ["Host", "HostProcess", "Lab", "Port", "SlurmLab", "SshLab", "missing_tools", "notebook_on", "why_impossible"]
