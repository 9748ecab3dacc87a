"""The options of each magic, once: parsing, help text and completion are made from them."""

from __future__ import annotations

import argparse
import re
from functools import cache

from gpulayer_nb.api.shape import check_target, seconds, whole_number
from gpulayer_nb.errors import UsageError
from gpulayer_nb.magics.option_parser import OptionParser
from gpulayer_nb.plan.accelerator import check_accelerator
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.records.fit_names import FitNames
from gpulayer_nb.records.fit_options import PRECISIONS

ACTIONS = ("up", "down", "workers", "ranks", "runs", "attach", "stop", "stuck", "launch", "export")  # of `%gpulayer`
_NAMES = FitNames()


@cache
def training_parser() -> OptionParser:
    parser = OptionParser("%%gpulayer", "Runs the cell on every rank, then fits its model on its train_loader with DDP.")
    _add_place(parser)
    add = parser.add_argument
    add("--epochs", type=_count("--epochs", least=0), help="passes over the training data (default 1)")
    add("--max-steps", type=_count("--max-steps"), help="end after so many optimizer steps")
    add("--max-time", type=lambda text: seconds(text, "--max-time"), help="end after this time, as 00:10:00")
    add("--precision", type=_one_of("--precision", PRECISIONS), default="32", help="32, bf16-mixed or 16-mixed")
    add("--accumulate", type=_count("--accumulate"), default=1, metavar="K", help="batches per optimizer step")
    add("--clip", type=_positive("--clip"), metavar="G", help="clip gradients to this norm")
    add("--seed", type=_count("--seed", least=0), help="same start weights, repeatable order and augmentation")
    add("--checkpoint-dir", help="where checkpoints go (default: the run's folder)")
    add("--resume", metavar="PATH", help="continue from a checkpoint, or `last`")
    add("--sync-batchnorm", action="store_true", help="batch statistics over all ranks (GPUs)")
    add("--find-unused-parameters", action="store_true", help="allow parameters that the loss does not use")
    add("--timeout", type=_positive("--timeout"), metavar="SECONDS", help="limit of one collective")
    add("--detach", action="store_true", help="return at once; the run goes on without this notebook")
    _add_common(parser)
    add("--model", default=_NAMES.model, metavar="NAME", help="the model's name (default model)")
    add("--loader", default=_NAMES.train_loader, metavar="NAME", help="the training loader's name (default train_loader)")
    add("--val-loader", default=_NAMES.val_loader, metavar="NAME", help="the validation loader's name (default val_loader)")
    return parser


@cache
def ranks_parser() -> OptionParser:
    parser = OptionParser("%%ranks", "Runs the cell on every rank, or on some: `%%ranks 0,2-3`.")
    parser.add_argument("ranks", nargs="?", help="which ranks, as 0,2-3 (default all)")
    _add_place(parser)
    parser.add_argument("--timeout", type=_positive("--timeout"), metavar="SECONDS", help="end a cell that takes longer")
    _add_common(parser)
    return parser


@cache
def up_parser() -> OptionParser:
    parser = OptionParser(
        "%gpulayer up",
        "Brings ranks up. `--target slurm` and `--target ssh` bring the machines too: as a Slurm job, with sbatch's own options\n"
        "(`--partition gpu --time 01:00:00`), or with one ssh a host (`--hosts a,b`).",
    )
    _add_place(parser)
    add = parser.add_argument
    add("--hosts", metavar="A,B", help="for ssh: its destinations, one worker each")
    add("--ssh", default="ssh", metavar="COMMAND", help='for ssh: the command with options of yours, as "ssh -i KEY"')
    add("--name", type=_cluster_name, help="for slurm and ssh: the cluster's name (default: slurm, ssh)")
    add("--python", metavar="PATH", help="for slurm and ssh: the interpreter on the nodes (default: this one)")
    add("--env", action="append", type=_variable, default=[], metavar="K=V", help="for slurm and ssh: a variable of the workers")
    add("--controller-address", metavar="A", help="for slurm and ssh: address of this machine that the nodes reach")
    add("--ports", metavar="A-B", help="for slurm and ssh: fixed ports of the controller, where a firewall needs them")
    add("--max-wait", type=lambda text: seconds(text, "--max-wait"), help="for slurm and ssh: wait at most so long (default 1 h)")
    return parser


@cache
def export_parser() -> OptionParser:
    parser = OptionParser("%gpulayer export", "Writes the last training cell as a script for torchrun, or for Slurm.")
    parser.add_argument("file", help="where to write it, for example train.py")
    parser.add_argument("--to", type=_one_of("--to", ("torchrun", "slurm")), default="torchrun", help="torchrun or slurm")
    return parser


@cache
def launch_parser() -> OptionParser:
    parser = OptionParser(
        "%gpulayer launch", "Runs a DDP script through torchrun: `launch train.py --nodes 2 --devices 2 -- ARGS`."
    )
    parser.add_argument("script", help="path of a Python script that torchrun could run")
    _add_place(parser)
    parser.add_argument("--env", action="append", type=_variable, default=[], metavar="K=V", help="a variable of the ranks")
    parser.add_argument("--as", dest="save_as", type=_name, metavar="NAME", help="keep the run under this name")
    return parser


def _add_place(parser: OptionParser) -> None:
    add = parser.add_argument
    add("--nodes", type=_count("--nodes"), metavar="N", help="nodes; on `local` they are simulated")
    add("--devices", type=_devices, metavar="D", help="ranks on each node, or auto")
    add("--accelerator", type=check_accelerator, default="auto", help="auto, cpu, cuda or mps")
    add("--target", type=check_target, help="where to run: local, remote, a cluster's name, a profile or a connection file")


def _add_common(parser: OptionParser) -> None:
    add = parser.add_argument
    add(
        "--env",
        action="append",
        type=_variable,
        default=[],
        metavar="K=V",
        help="an environment variable of the ranks; may be repeated",
    )
    add("--as", dest="save_as", type=_name, metavar="NAME", help="keep the result under this name")
    add("--no-sync", action="store_true", help="send nothing of the notebook to the ranks")


def _count(option: str, least: int = 1):  # type: ignore[no-untyped-def]  # argparse names a type by this function's result
    def convert(text: str) -> int:
        try:
            number = whole_number(text, option)
        except UsageError:
            number = least - 1
        if number < least:
            raise UsageError(
                f"{option} is {text}; it is a whole number of at least {least}, for example `{option} {max(least, 2)}`."
            )
        return number

    return convert


def _positive(option: str):  # type: ignore[no-untyped-def]  # as above
    def convert(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = 0.0
        if not number > 0:
            raise UsageError(f"{option} is {text}; it is a number above 0.")
        return number

    return convert


def _one_of(option: str, words: tuple[str, ...]):  # type: ignore[no-untyped-def]  # as above
    def convert(text: str) -> str:
        if text not in words:
            raise UsageError(f"{option} is {text}; it is one of {', '.join(words)}.")
        return text

    return convert


def _devices(text: str) -> int | str:
    return text if text == "auto" else int(_count("--devices")(text))


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--env is {text}; write NAME=VALUE.")
    return name, value


def _cluster_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text) or text in ("local", "remote"):
        raise UsageError(f"--name is {text}; it consists of letters, digits, dots, hyphens and underscores, as in `lab-1`.")
    return text


def _name(text: str) -> str:
    if not text.isidentifier():
        raise UsageError(f"--as is {text}; it is a Python name, for example `--as result`.")
    return text


def chosen_ranks(text: str | None, topology: Topology) -> tuple[int, ...] | None:
    """`0,2-3` as ranks in order; None means all.

    Raises:
        UsageError: not such a list, or a rank that does not exist.
    """
    if text is None:
        return None
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise UsageError(f"%%ranks {text}: write ranks as in `%%ranks 0,2-3`.")
        ranks |= set(range(int(first), int(last if dash else first) + 1))
    for rank in sorted(ranks):
        topology.place(rank)
    return tuple(sorted(ranks))


def environment(options: argparse.Namespace) -> dict[str, str]:
    return dict(options.env)
