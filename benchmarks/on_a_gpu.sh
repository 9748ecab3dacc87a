#!/usr/bin/env bash
# What needs a GPU, in one go, below ten minutes: the tests that are marked `gpu`, then speed against a bare loop.
# Needs the extras `test` and `bench` and a torch that finds a GPU. Argument: where to put the JSON (default: here).
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
python -c "import torch; print(torch.__version__, [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())])"
timeout 240 python -m pytest -m gpu -rs --durations=5
timeout 300 python benchmarks/run.py throughput_gpu throughput_gpu_bf16 --rounds 3 --json "${1:-.}/gpu.json"
