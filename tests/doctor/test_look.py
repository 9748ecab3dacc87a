"""The doctor on this machine, and with real faults around it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

from gpulayer_nb.doctor.look import controller_facts, limit_facts, network_facts, torch_facts


def test_this_machine_is_looked_at_whole():
    done = subprocess.run([sys.executable, "-m", "gpulayer_nb", "doctor", "--json"], capture_output=True, text=True, timeout=150)
    report = json.loads(done.stdout)
    facts = report["facts"]
    assert facts["executable"] == sys.executable
    assert facts["torch"]["error"] == "" and "gloo" in facts["torch"]["backends"]
    assert facts["packages"]["ipyparallel"].startswith("9.")
    assert "127.0.0.1" in facts["network"]["interfaces"]["lo"]
    assert done.returncode == (0 if report["well"] else 1)
    assert {"python", "packages", "torch", "interfaces", "address", "open files", "/dev/shm"} <= {
        finding["topic"] for finding in report["findings"]
    }


def test_a_controller_that_answers_and_one_that_does_not(tmp_path):
    file = tmp_path / "ipcontroller-client.json"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        file.write_text(json.dumps({"interface": "tcp://0.0.0.0", "location": "127.0.0.1", "registration": port}))
        assert controller_facts(file).error == ""
    gone = controller_facts(file)
    assert gone.address == "127.0.0.1" and f"no controller answers at 127.0.0.1:{port} (Connection refused)" in gone.error
    file.write_text("{")
    assert "not whole" in controller_facts(file).error
    file.write_text("{}")
    assert "no connection file" in controller_facts(file).error
    assert "no such file" in controller_facts(tmp_path / "missing.json").error


def test_a_torch_that_cannot_be_imported_is_told_with_its_last_words(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert torch_facts().error == "ImportError: libcudart.so.12: cannot open shared object file"


def test_a_file_in_the_place_of_the_run_folders_is_told(tmp_path, monkeypatch):
    (tmp_path / "runs").write_text("")
    monkeypatch.setenv("GPULAYER_HOME", str(tmp_path / "runs"))
    assert limit_facts().home_error == "Not a directory"


def test_the_way_to_loopback_is_loopback():
    assert network_facts("127.0.0.1").address == "127.0.0.1"
