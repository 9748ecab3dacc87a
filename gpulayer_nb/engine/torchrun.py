"""torchrun itself: `python -m gpulayer_nb.engine.torchrun FAILURES ARGUMENTS`.

Runs as one node's agent of a launch, under its keeper. Owns nothing but the list of exit codes it leaves behind: torchrun tells
them in prose only. Everything else is `torch.distributed.run`, unchanged.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

SHUTDOWN_SECONDS = 5  # for ranks that ignore SIGTERM because they wait inside gloo; torchrun's default is 30
REFUSED_EXIT_CODE = 3


def main(failures: Path, accelerator: str, arguments: list[str]) -> None:
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    if accelerator == "cuda":
        _check_gpus(arguments)
    if "--shutdown-timeout" in run.get_args_parser().format_help():  # since torch 2.13
        arguments = [f"--shutdown-timeout={SHUTDOWN_SECONDS}", *arguments]
    try:
        run.main(arguments)
    except ChildFailedError as error:
        failures.write_text(json.dumps({failure.local_rank: failure.exitcode for failure in error.failures.values()}))
        raise


def _check_gpus(arguments: list[str]) -> None:
    import torch

    from gpulayer_nb.plan.topology import count

    asked = int(next(word for word in arguments if word.startswith("--nproc-per-node=")).partition("=")[2])
    found = torch.cuda.device_count()
    if found < asked:
        sys.stderr.write(f"refused: {count(found, 'GPU')} found, {asked} asked\n")
        sys.exit(REFUSED_EXIT_CODE)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
