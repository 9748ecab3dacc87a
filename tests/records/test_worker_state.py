"""A worker's state is read by other releases too: a folder that one left must not keep a cluster from starting."""

import json
from dataclasses import asdict

from gpulayer_nb.records.worker_state import EngineState, WorkerState

STATE = WorkerState(worker="local", pid=7, phase="up", engines=(EngineState(slot=0, pid=8, ticks=1),), children=((9, 1),))


def test_what_was_written_is_read(tmp_path):
    STATE.write(tmp_path / "state.json")
    assert WorkerState.read(tmp_path / "state.json") == STATE


def test_a_state_of_an_older_release_has_defaults_and_one_of_a_newer_release_loses_what_is_new():
    data = asdict(STATE)
    del data["claims"], data["deaths"]
    assert WorkerState.from_json(json.dumps({**data, "weather": "fine"})) == STATE


def test_what_is_no_state_is_none(tmp_path):
    for number, text in enumerate(["", "{", "[]", "{}", '{"worker": "local", "pid": 7, "phase": "up", "engines": [{}]}']):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        assert WorkerState.read(path) is None
    assert WorkerState.read(tmp_path / "none.json") is None
