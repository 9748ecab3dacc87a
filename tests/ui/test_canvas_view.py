"""The live view that the page draws, in a real kernel: few and small messages, one still, nothing left over."""

import base64
import json
import struct
from collections import Counter

import nbformat
import pytest

from gpulayer_nb.ui.curve_feed import DELTA_BYTES

SHOW = """
from gpulayer_nb.ui.canvas_view import CanvasView
history = RunHistory(); view = None
for record in run.recorded({options}):
    history.apply(record)
    if view is None:
        view = CanvasView(history); view.show()
    view.refresh()
    {pause}
{more}
view.finish()
"""


BLOCK = """
blocked = False
until = time.monotonic() + 3
while time.monotonic() < until:
    view.refresh(); time.sleep(0.05)
blocked = True
"""


def shown(kernel, options="", more="", pause=""):
    return kernel.run(SHOW.format(options=options, more=more, pause=pause))


def told(cell):
    """(arrival, what was told, bytes of it) of each message to the page."""
    found = []
    for arrival, kind, content in cell.messages:
        if kind == "comm_msg" and content["data"].get("method") == "custom":
            found.append((arrival, content["data"]["content"]))
    return found


def test_a_run_leaves_one_output_with_picture_table_and_text(kernel):
    cell = shown(kernel)
    assert [output.output_type for output in cell.outputs] == ["display_data"]
    data = cell.outputs[0].data
    assert sorted(data) == ["image/png", "text/html", "text/plain"]
    assert struct.unpack(">I", base64.b64decode(data["image/png"])[16:20])[0] == 2 * 960
    assert '<img width="960" alt="curves up to step 300; loss: train ' in data["text/html"]
    kinds = Counter(kind for _, kind, _ in cell.messages)
    assert (kinds["display_data"], kinds["update_display_data"], kinds["stream"]) == (1, 1, 0)


def test_updates_are_few_and_small_and_numbered_without_a_gap(kernel):
    cell = shown(kernel, "epochs=4, steps=5000, flush=40, names=('loss', 'acc', 'lr')", pause="time.sleep(0.002)")
    news = told(cell)
    assert [message["number"] for _, message in news] == list(range(1, len(news) + 1))
    span = news[-1][0] - news[0][0]
    assert 2 <= len(news) <= 5 * span + 3, f"{len(news)} updates in {span:.1f} s"
    largest = max(len(json.dumps(message)) for _, message in news if message["kind"] == "news")
    assert largest + DELTA_BYTES <= 10_000, f"{largest} bytes of words and tables, beside at most {DELTA_BYTES} of curves"
    assert cell.outputs[0].data["image/png"]
    assert len(json.dumps(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=cell.outputs)]))) < 400_000


def test_the_widget_is_gone_afterwards_and_its_last_state_is_small(kernel):
    cell = shown(kernel)
    closed = {content["comm_id"] for _, kind, content in cell.messages if kind == "comm_close"}
    opened = {content["comm_id"] for _, kind, content in cell.messages if kind == "comm_open"}
    assert closed == opened, "every widget that was made is gone"
    states = [content["data"].get("state", {}) for _, kind, content in cell.messages if kind == "comm_msg"]
    assert [state["_esm"] for state in states if "_esm" in state] == ["export default {}"]


def test_a_failed_run_tells_its_cause_to_page_and_still(kernel):
    cell = shown(kernel, "until=150")
    last = told(cell)[-1][1]
    assert "bad &lt;sample&gt; 17" in last["note"]
    assert last["chart"]["state"] == "failed"
    assert "<b>ValueError: bad &lt;sample&gt; 17</b>" in cell.outputs[0].data["text/html"]


def test_what_users_print_cannot_become_markup(kernel):
    evil = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
    cell = shown(kernel, f"output={evil + chr(10)!r}, names=('<b>loss',), run_id='<i>x'")
    for _, message in told(cell):
        ready = [message.get(part, "") for part in ("head", "strip", "bar", "note", "ranks", "ranks_count")]
        ready += [html for rank in message.get("output", []) for _, html in rank["lines"]]
        assert not any(markup in html for html in ready for markup in ("<script", "<img", "<b>loss", "<i>x")), message


def test_a_view_that_is_dismissed_leaves_the_error_alone(kernel):
    cell = kernel.run(
        "from gpulayer_nb.ui.canvas_view import CanvasView\n"
        "history = RunHistory(); view = CanvasView(history); view.show(); history.say('3 of 4 ranks up'); view.refresh()\n"
        "view.dismiss(); print('refused')"
    )
    assert [(output.output_type, output.get("text")) for output in cell.outputs] == [("stream", "refused\n")]


def test_a_page_that_says_hello_while_the_cell_blocks_is_told_everything(kernel):
    """The message goes to the blocked shell; the waiting view answers it, and what else was asked waits for its turn."""
    from threading import Timer

    hello = []

    def ask():
        comms = [c["comm_id"] for _, kind, c in kernel.messages if kind == "comm_open" and "_esm" in c["data"]["state"]]
        message = {"comm_id": comms[-1], "data": {"method": "custom", "content": {"kind": "hello", "first": True}}}
        client = kernel.kc
        later = client.session.msg("execute_request", {"code": "after = blocked", "silent": True, "store_history": False,
                                                       "user_expressions": {}, "allow_stdin": False})  # fmt: skip
        client.shell_channel.send(later)
        client.shell_channel.send(client.session.msg("comm_msg", message))
        hello.append(True)

    timer = Timer(1.0, ask)
    timer.start()
    cell = shown(kernel, more=BLOCK)
    timer.join(5)
    assert hello
    asked = [m for _, m in told(cell) if m["kind"] == "whole"]
    assert len(asked) >= 2 and {e["kind"] for e in asked[-1]["curves"]} >= {"whole", "train", "val"}
    assert kernel.run("after").outputs[0].data["text/plain"] == "True", "what was held ran after the cell"


@pytest.mark.slow
def test_fifty_runs_leave_memory_threads_and_comms_flat(kernel):
    kernel.run(
        "import comm, gc, psutil, threading\nprocess = psutil.Process()\ndef size():\n    gc.collect()\n"
        "    return process.memory_info().rss, threading.active_count(), len(comm.get_comm_manager().comms)"
    )
    for _ in range(5):
        shown(kernel)
    kernel.run("first = size()")
    for _ in range(50):
        shown(kernel)
    grown = kernel.run("print(*(b - a for a, b in zip(first, size())))").outputs[0].text.split()
    assert grown[1:] == ["0", "0"], f"threads, comms: {grown[1:]}"
    assert int(grown[0]) < 40e6, f"{int(grown[0]) / 1e6:.0f} MB more after 50 runs"
