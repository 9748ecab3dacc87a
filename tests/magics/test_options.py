import json
import os
from types import SimpleNamespace

import pytest

from gpulayer_nb.api.detached import note_driver
from gpulayer_nb.errors import UsageError
from gpulayer_nb.magics.completion import complete_options
from gpulayer_nb.magics.options import chosen_ranks, environment, ranks_parser, training_parser
from gpulayer_nb.plan.topology import Topology
from gpulayer_nb.process import start_ticks
from gpulayer_nb.records.cluster_folder import ClusterFolder
from gpulayer_nb.records.run_folder import RunFolder


def test_every_option_of_a_training_cell_is_read():
    options = training_parser().read(
        "--nodes 2 --devices 4 --accelerator gpu --epochs 3 --max-steps 9 --max-time 00:01:00 --precision bf16-mixed "
        "--accumulate 2 --clip 0.5 --seed 0 --env A=1 --env B=x=y --as kept --no-sync --model net --loader l "
        "--val-loader v --timeout 60 --detach"
    )
    assert (options.nodes, options.devices, options.accelerator, options.epochs, options.max_steps) == (2, 4, "cuda", 3, 9)
    assert (options.max_time, options.precision, options.accumulate, options.clip, options.seed) == (
        60.0,
        "bf16-mixed",
        2,
        0.5,
        0,
    )
    assert environment(options) == {"A": "1", "B": "x=y"}
    assert (options.save_as, options.no_sync, options.model, options.detach) == ("kept", True, "net", True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--nodes two", "--nodes is two; it is a whole number of at least 1, for example `--nodes 2`."),
        ("--as 2x", "--as is 2x; it is a Python name"),
        ("--env A", "--env is A; write NAME=VALUE."),
        ("--clip -1", "--clip is -1; it is a number above 0."),
        ("stray", "%%gpulayer knows no word stray."),
        ("--epoch 3", "%%gpulayer knows no option --epoch. Did you mean --epochs?"),
        ("--as 'open", "No closing quotation"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(line, words):
    with pytest.raises(UsageError) as refused:
        training_parser().read(line)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_comment_behind_the_options_is_no_option():
    assert training_parser().read("--epochs 2  # a short run").epochs == 2


@pytest.mark.parametrize(("text", "ranks"), [(None, None), ("0", (0,)), ("0,2-3", (0, 2, 3)), ("3,1", (1, 3)), ("1-1,1", (1,))])
def test_ranks_are_chosen_as_lists_and_ranges(text, ranks):
    assert chosen_ranks(text, Topology(2, 2)) == ranks


@pytest.mark.parametrize("text", ["a", "1-", "-1", "0;1", "4"])
def test_ranks_that_do_not_exist_are_refused(text):
    with pytest.raises(UsageError):
        chosen_ranks(text, Topology(2, 2))


def test_the_magics_own_options_complete():
    event = SimpleNamespace(line="%%gpulayer --ac", symbol="--ac")
    assert complete_options(None, event) == ["--accelerator", "--accumulate"]
    event = SimpleNamespace(line="%%ranks --t", symbol="--t")
    assert complete_options(None, event) == ["--target", "--timeout"]


@pytest.mark.parametrize(
    ("line", "symbol", "words"),
    [
        ("%gpulayer st", "st", ["stop", "stuck"]),
        ("%gpulayer up --no", "--no", ["--nodes"]),
        ("%%gpulayer --precision b", "b", ["bf16-mixed"]),
        ("%%ranks --accelerator ", "", ["auto", "cpu", "cuda", "mps"]),
        ("%%gpulayer --resume ", "", ["last"]),
        ("%%gpulayer --target l", "l", ["local"]),
        ("%gpulayer launch train.py --no", "--no", ["--nodes"]),
        ("%gpulayer launch train.py -- --no", "--no", []),
        ("%gpulayer export --to s", "s", ["slurm"]),
    ],
)
def test_words_and_values_complete(line, symbol, words):
    assert complete_options(None, SimpleNamespace(line=line, symbol=symbol)) == words


def test_targets_complete_with_the_clusters_that_run_here(monkeypatch, tmp_path):
    monkeypatch.setattr("gpulayer_nb.client.targets.clusters_root", lambda: tmp_path)
    folder = ClusterFolder.create("c1", tmp_path)
    folder.add_owner(os.getpid(), start_ticks(os.getpid()))
    folder.card.write_text(json.dumps({"name": "lab", "address": "10.0.0.1"}))
    event = SimpleNamespace(line="%%gpulayer --target ", symbol="")
    assert complete_options(None, event) == ["local", "remote", "lab"]


def test_run_ids_complete_newest_first_and_those_to_stop_are_on(tmp_path, monkeypatch):
    monkeypatch.setenv("GPULAYER_HOME", str(tmp_path))
    for run_id, state in (("20260101-1", "finished"), ("20260102-1", "running")):
        folder = RunFolder.create(run_id)
        folder.write_facts({"state": state})
        note_driver(folder)
    attach = SimpleNamespace(line="%gpulayer attach ", symbol="")
    assert complete_options(None, attach) == ["20260102-1", "20260101-1"]
    stop = SimpleNamespace(line="%gpulayer stop 2026", symbol="2026")
    assert complete_options(None, stop) == ["20260102-1"]


def test_the_help_names_every_option():
    for parser in (training_parser(), ranks_parser()):
        text = parser.format_help()
        assert all(word in text for word in parser.option_words())
