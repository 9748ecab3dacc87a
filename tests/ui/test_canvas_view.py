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


BUSY = """
import json
from gpulayer_nb.records.record import RankOutput, StepMetrics
sizes, send = [], view._widget.send
def counted(message, buffers):
    if message["kind"] == "news":
        sizes.append(len(json.dumps(message)) + sum(map(len, buffers)))
    send(message, buffers)
view._widget.send = counted
for burst in range(40):
    for rank in range(4):
        lines = (f"rank {rank} burst {burst} line {i} " + "x" * 60 for i in range(30))
        history.apply(RankOutput(rank=rank, stream="stdout", text="\\n".join(lines) + "\\n"))
    steps = tuple(range(1_000 * (burst + 1), 1_000 * (burst + 2)))
    values = {name: tuple(map(float, steps)) for name in ("loss", "acc", "lr", "more")}
    history.apply(StepMetrics(time=1100.0 + burst, steps=steps, epochs=(1 + burst,) * 1_000, values=values, samples=1_000))
    view.refresh(); time.sleep(0.05)
history.apply(RankOutput(rank=0, stream="stdout", text="y" * 9_000 + "\\n"))
until = time.monotonic() + 8
while time.monotonic() < until:
    view.refresh(); time.sleep(0.05)
"""


def test_busy_output_keeps_updates_small_and_all_that_is_kept_arrives_in_the_end(kernel):
    cell = shown(kernel, "epochs=1, world=16", more=BUSY)
    largest = int(kernel.run("max(sizes[:-1])").outputs[0].data["text/plain"])
    assert 5_000 < largest <= 10_000, f"{largest} bytes in one update"
    lines: dict[int, dict[int, str]] = {}
    for _, message in told(cell):
        for rank in message.get("output", []):
            seen = {**lines.get(rank["rank"], {}), **dict(rank["lines"])}
            lines[rank["rank"]] = {number: text for number, text in seen.items() if number >= rank["first"]}
    assert len(lines[2]) == 200
    last = [text.split(" x")[0] for _, text in sorted(lines[2].items())][-2:]
    assert last == ["rank 2 burst 39 line 28", "rank 2 burst 39 line 29"]
    assert max(lines[0].items())[1].startswith("y" * 1_000 + " … (the whole line is in run.logs)")


HIDDEN = """
def heard(**content): view._heard(None, content, [])
heard(kind="hello", first=True, page="a")
{before}
from gpulayer_nb.records.record import RankOutput
until = time.monotonic() + 2
while time.monotonic() < until:
    history.apply(RankOutput(rank=0, stream="stdout", text="tick\\n")); view.refresh(); time.sleep(0.02)
{after}
"""


def test_a_page_that_nobody_looks_at_is_told_nothing_and_all_when_it_is_looked_at_again(kernel):
    awake = told(shown(kernel, more=HIDDEN.format(before="", after="")))
    asleep = told(shown(kernel, more=HIDDEN.format(before="heard(kind='sleep', page='a')", after="")))
    assert len(awake) - len(asleep) >= 4, (len(awake), len(asleep))
    assert asleep[-1][1]["kind"] == "whole", "at the end everything, for whoever looks again"
    again = HIDDEN.format(before="heard(kind='sleep', page='a')", after="heard(kind='hello', page='a')")
    woken = told(shown(kernel, more=again))
    assert woken[-2][1]["kind"] == "whole"
    other = told(
        shown(kernel, more=HIDDEN.format(before="heard(kind='hello', page='b'); heard(kind='sleep', page='a')", after=""))
    )
    assert len(other) >= len(awake), "another page is looked at"


CHOSEN = """
import dataclasses
history.fit = dataclasses.replace(history.fit, prog_bar=("acc",))
view._updated = -1e9; view.refresh()
"""


def test_metrics_beside_the_progress_bar_come_first_and_stand_in_the_strip(kernel):
    more = CHOSEN
    last = [message for _, message in told(shown(kernel, more=more)) if "chart" in message][-1]
    assert [panel["family"] for panel in last["chart"]["panels"]] == ["acc", "loss"]
    strips = [message["strip"] for _, message in told(shown(kernel, more=more)) if "strip" in message]
    assert "<dt>acc</dt>" in strips[-1]
    assert "<dt>loss</dt>" not in strips[-1]


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
