"""The whole exported script, and the batch file around it. Pure: a cell and its sources in, text out."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpulayer_nb.export.loop_text import PROCESS_GROUP, RESTORED, training
from gpulayer_nb.export.sources import Sources
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.fit_names import FitNames
from gpulayer_nb.records.fit_options import FitOptions
from gpulayer_nb.shipping.free_names import bound_names

OUR_IMPORTS = (
    "import contextlib",
    "import hashlib",
    "import itertools",
    "import os",
    "import random",
    "from pathlib import Path",
    "import torch",
    "import torch.distributed as dist",
    "from torch.nn.parallel import DistributedDataParallel",
    "from torch.utils.data import DataLoader, RandomSampler, SequentialSampler",
    "from torch.utils.data.distributed import DistributedSampler",
)
# names that the script has before the cell runs, as a rank has them
GIVEN = frozenset({"rank", "local_rank", "node_rank", "world_size", "device", "dist", "torch"})


@dataclass(frozen=True)
class ExportedCell:
    """What is exported: the cell's own lines and how it was trained."""

    body: str
    magic: str  # its first line, for the reader
    topology: Topology
    accelerator: str
    options: FitOptions
    names: FitNames
    parts: Collection[str]
    env: Mapping[str, str]


def script_text(cell: ExportedCell, sources: Sources, file_name: str) -> str:
    """The script; what it cannot say in words is in the file of the same name that ends in `.pt`."""
    data_name = data_file_name(file_name)
    sections = []
    if cell.env:
        sections.append("\n".join(f"os.environ.setdefault({name!r}, {value!r})" for name, value in cell.env.items()))
    use_gpu = {"cpu": "False", "cuda": "True"}.get(
        cell.accelerator, 'torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])'
    )
    sections.append(PROCESS_GROUP.format(use_gpu=use_gpu).strip())
    if sources.needs_restore:
        sections.append("\n" + RESTORED.strip() + "\n\n")
    if sources.data.values:
        sections.append(
            f'# What was only in the notebook\'s memory.\nnotebook_data = torch.load(Path(__file__).with_name("{data_name}"), '
            'map_location="cpu", weights_only=True)'
        )
    if sources.lines:
        sections.append("# From other cells of the notebook.\n" + _spaced(sources.lines))
    body = [f"# The cell: {cell.magic}"]
    if cell.options.seed is not None:
        body.append(f"random.seed({cell.options.seed})\ntorch.manual_seed({cell.options.seed})  # the same start on every rank")
    sections += [
        "\n".join([*body, cell.body]),
        "\n" + training(cell.names, cell.options, cell.parts, bound_names(cell.body) | sources.names).rstrip() + "\n",
    ]
    text = "\n\n".join(section.rstrip("\n") for section in sections) + "\n"
    return f"{_head(cell, sources, file_name)}\n\n{_imports(sources, text)}\n\n{text}"


def data_file_name(script_name: str) -> str:
    return script_name.rpartition(".")[0] + ".pt" if "." in script_name else script_name + ".pt"


def _head(cell: ExportedCell, sources: Sources, file_name: str) -> str:
    shape = cell.topology
    data = f" Its data are in {data_file_name(file_name)}." if sources.data.values else ""
    modules = f"\nIt imports {', '.join(sources.modules)} of yours: keep them beside it.\n" if sources.modules else ""
    how = f"    torchrun --nproc-per-node {shape.world_size} {file_name}"
    if shape.num_nodes > 1:
        how += (
            f"\n\non one machine, or on each of {shape.num_nodes} nodes, HOST being one of them, with\n\n"
            f"    torchrun --nnodes {shape.num_nodes} --nproc-per-node {shape.devices} --rdzv-backend c10d "
            f"--rdzv-endpoint HOST:29500 {file_name}"
        )
    return (
        f'"""A training cell of a notebook as a script: {shape}.{data}\n\nRun it with\n\n{how}\n{modules}\n'
        f'It prints the means over all ranks after each epoch; rank 0 saves the weights beside the script.\n"""'
    )


def _imports(sources: Sources, text: str) -> str:
    """The user's imports, and those of ours that the text uses; one line a module, as formatters like it."""
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    whole: dict[str, None] = {}
    parts: dict[str, dict[str, None]] = {}
    for line in (*OUR_IMPORTS, *sources.imports):
        (statement,) = ast.parse(line).body
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            raise ValueError(f"not an import: {line}")
        for alias in statement.names:
            if line in OUR_IMPORTS and (alias.asname or alias.name) not in used:
                continue
            word = alias.name + (f" as {alias.asname}" if alias.asname else "")
            if isinstance(statement, ast.Import):
                whole[f"import {word}"] = None
            else:
                parts.setdefault(str(statement.module), {})[word] = None
    return "\n".join(sorted(whole) + [f"from {module} import {', '.join(sorted(parts[module]))}" for module in sorted(parts)])


def _spaced(lines: list[str]) -> str:
    """Two empty lines around definitions, none between short statements."""
    text = ""
    for line in lines:
        long = line.lstrip().startswith(("def ", "class ", "@", "async def "))
        text += ("\n\n" if long and text else "") + line + ("\n\n\n" if long else "\n")
    return text.rstrip("\n").replace("\n\n\n\n\n", "\n\n\n")


def sbatch_text(cell: ExportedCell, script: Path) -> str:
    """A batch file that runs the script with one task a node; torchrun starts the ranks of each.

    Args:
        script: its absolute path, the same on every node.
    """
    shape = cell.topology
    gpus = f"#SBATCH --gpus-per-node={shape.devices}\n" if cell.accelerator == "cuda" else ""
    return f"""\
#!/bin/bash
#SBATCH --job-name={script.stem}
#SBATCH --chdir={script.parent}
#SBATCH --nodes={shape.num_nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task={shape.devices}
{gpus}#SBATCH --no-requeue
#SBATCH --output=%x-%j.log
# One task a node: torchrun starts {shape.devices} ranks on each. A job that loses a node fails and is not started again.
# Add what your cluster asks for (--partition, --account, --time) and activate your environment here.

set -euo pipefail

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT OMP_NUM_THREADS="${{OMP_NUM_THREADS:-1}}"

# shellcheck disable=SC2016  # SLURM_NODEID is each task's own
srun --kill-on-bad-exit=1 bash -c 'exec torchrun \\
    --nnodes "$SLURM_JOB_NUM_NODES" --node-rank "$SLURM_NODEID" --nproc-per-node {shape.devices} \\
    --rdzv-backend static --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \\
    "$@"' torchrun {shlex.quote(script.name)} "$@"
"""
