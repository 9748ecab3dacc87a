import base64

import pytest

from gpulayer_nb.client import script_bundle
from gpulayer_nb.client.script_bundle import collect
from gpulayer_nb.errors import UsageError
from gpulayer_nb.worker.launch_files import LaunchFiles


@pytest.fixture
def script(tmp_path):
    files = {
        "train.py": "import model\nfrom parts.layers import Layer\nimport torch\n",
        "model.py": "import deeper\n",
        "deeper.py": "x = 1\n",
        "parts/__init__.py": "",
        "parts/layers.py": "class Layer: pass\n",
        "parts/words.txt": "hello\n",
        "parts/__pycache__/layers.pyc": "compiled\n",
        "other/unused.py": "x = 1\n",
        "config.yaml": "lr: 0.1\n",
        ".secret": "token\n",
        "weights.bin": "0" * 2_000_000,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "train.py"


def test_modules_are_followed_and_small_files_beside_go_along(script):
    bundle = collect(script)
    assert sorted(bundle.files) == [
        "config.yaml", "deeper.py", "model.py", "parts/__init__.py", "parts/layers.py", "parts/words.txt", "train.py",
    ]  # fmt: skip
    assert bundle.left_out == ("weights.bin",)


def test_too_much_is_refused(script, monkeypatch):
    monkeypatch.setattr(script_bundle, "MAX_BYTES", 10)
    with pytest.raises(UsageError, match="Next: put the script into a folder of its own"):
        collect(script)


def test_a_worker_lays_out_what_it_got_and_asks_for_nothing_twice(script, tmp_path):
    bundle, files = collect(script), LaunchFiles(tmp_path / "data")
    assert files.are_in_place(str(tmp_path), bundle.files)  # here, the files are where they were
    assert not files.are_in_place(str(tmp_path / "elsewhere"), bundle.files)
    for digest in files.missing(bundle.files):
        data = bundle.read(digest)
        half = len(data) // 2
        files.take(digest, 0, base64.b64encode(data[:half]).decode(), len(data))
        if half:
            files.take(digest, half, base64.b64encode(data[half:]).decode(), len(data))
    assert files.missing(bundle.files) == []
    folder = files.lay_out("20260101-000000-abcd", bundle.files)
    assert {name: (folder / name).read_bytes() for name in bundle.files} == {
        name: (script.parent / name).read_bytes() for name in bundle.files
    }


def test_a_worker_writes_nowhere_else_and_keeps_nothing_false(tmp_path):
    files = LaunchFiles(tmp_path / "data")
    digest = "0" * 64
    with pytest.raises(ValueError, match="do not agree"):
        files.take(digest, 0, base64.b64encode(b"other").decode(), 5)
    assert files.missing({"a.py": digest}) == [digest]
    (tmp_path / "data" / "launch-files" / digest).write_text("x")
    for name in ("../out.py", "/tmp/out.py"):
        with pytest.raises(ValueError, match="leads out"):
            files.lay_out("run", {name: digest})
    with pytest.raises(ValueError, match="no digest"):
        files.missing({"a.py": "../../etc/passwd"})
    with pytest.raises(ValueError, match="names no run"):
        files.lay_out("../run", {})
