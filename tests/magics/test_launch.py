import pytest
from real_notebook import wait_for_file

from gpulayer_nb.magics.launching import split_at_dashes

SCRIPT = """
import os, sys, time
print("rank", os.environ["RANK"], sys.argv[1:], flush=True)
if "wait" in sys.argv: open("waiting", "w").close(); time.sleep(100)
if "fail" in sys.argv and os.environ["RANK"] == "1": raise KeyError("colour")
"""


def test_what_follows_two_dashes_is_for_the_script():
    assert split_at_dashes("train.py --nodes 2 -- --lr 0.1 'a b' -- c") == (
        "train.py --nodes 2",
        ["--lr", "0.1", "a b", "--", "c"],
    )
    assert split_at_dashes("train.py --") == ("train.py", [])


@pytest.mark.slow
def test_a_notebook_launches_a_script_sees_its_output_and_its_failure_and_stops_it(fresh_notebook, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    text = fresh_notebook.ok("%gpulayer launch script.py --nodes 2 --devices 1 --as done -- --lr 0.1", limit_seconds=120)
    assert "[rank 0] rank 0 ['--lr', '0.1']\n[rank 1] rank 1 ['--lr', '0.1']" in text
    assert fresh_notebook.ok("print(done.state, done.exit_codes)").strip() == "finished {0: 0, 1: 0}"

    failed = fresh_notebook.run("glt.launch('script.py', devices=2, args=['fail'])", limit_seconds=120)
    assert failed.error.startswith(
        "RunFailed: KeyError: 'colour' — rank 1 (node 0, local rank 1, worker local), in script.py line 5"
    )
    assert 'raise KeyError("colour")' in failed.traceback
    assert "launching.py" not in failed.traceback  # none of our own frames
    assert fresh_notebook.ok("print(glt.runs[-1].state)").strip() == "failed"

    sent = fresh_notebook.send("glt.launch('script.py', args=['wait'])")
    wait_for_file(tmp_path / "waiting")
    fresh_notebook.manager.interrupt_kernel()
    stopped = fresh_notebook.read(sent, limit_seconds=30)
    assert stopped.error.startswith("RunStopped: stopped script.py"), stopped.error
