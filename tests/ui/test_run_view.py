"""The live view that needs ipywidgets alone, in a real kernel: one output, few updates, a still at the end."""

import base64
import json
import struct
from collections import Counter, defaultdict

import nbformat

SHOW = """
from gpulayer_nb.ui.run_view import RunView
history = RunHistory(); view = None
for record in run.recorded({options}):
    history.apply(record)
    if view is None:
        view = RunView(history); view.show()
    view.refresh()
{more}
view.finish()
"""


def shown(kernel, options="", more=""):
    return kernel.run(SHOW.format(options=options, more=more))


def test_a_run_leaves_one_output_with_picture_table_and_text(kernel):
    cell = shown(kernel)
    assert [output.output_type for output in cell.outputs] == ["display_data"]
    data = cell.outputs[0].data
    assert sorted(data) == ["image/png", "text/html", "text/plain"]
    assert struct.unpack(">I", base64.b64decode(data["image/png"])[16:20])[0] == 2 * 960, "two device pixels for each CSS pixel"
    assert '<img width="960" alt="curves up to step 300; loss: train ' in data["text/html"]
    assert data["text/plain"].startswith("2 nodes × 2 devices = 4 ranks · batch 32 × 4 = global batch 128\n")
    assert max(map(len, data["text/plain"].splitlines())) <= 80
    kinds = Counter(kind for _, kind, _ in cell.messages)
    assert kinds["display_data"] == 1
    assert kinds["update_display_data"] == 1
    assert kinds["stream"] == 0


def test_the_still_is_all_that_the_document_holds_and_closed_widgets_are_small(kernel):
    cell = shown(kernel, "epochs=2, steps=1000, names=('loss', 'acc', 'lr', 'norm')")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=cell.outputs)])
    assert len(json.dumps(notebook)) < 400_000
    closed = [content["comm_id"] for _, kind, content in cell.messages if kind == "comm_close"]
    opened = [content["comm_id"] for _, kind, content in cell.messages if kind == "comm_open"]
    assert sorted(closed) == sorted(opened), "every widget that was made is gone"
    values = {c["comm_id"]: c["data"]["state"]["value"] for _, kind, c in cell.messages
              if kind == "comm_msg" and "value" in c["data"].get("state", {})}  # fmt: skip
    assert set(values.values()) == {""}, "the last state of a closed widget is empty"


def test_twenty_thousand_steps_of_three_metrics_stay_calm(kernel):
    cell = shown(
        kernel,
        "epochs=4, steps=5000, flush=40, names=('loss', 'acc', 'lr')",
        "chart = view._chart.chart()\n"
        "assert max(len(s.steps) for p in chart.panels for s in (p.raw, p.mean, p.train, p.val)) <= 2000\n"
        "assert [p.raw.values[-1] for p in chart.panels] == [history.column(n)[1][-1] for n in ('loss', 'acc', 'lr')]",
    )
    assert len(cell.outputs) <= 2
    times = defaultdict(list)
    for arrival, kind, content in cell.messages:
        if kind == "comm_msg" and content["data"].get("method") == "update":
            times[content["comm_id"]].append(arrival)
    span = cell.messages[-1][0] - cell.messages[0][0]
    busiest = max(len(arrivals) for arrivals in times.values())
    # beyond five a second: the first, one at the end of the fit, the last of the run, and the one that empties it
    assert 2 <= busiest <= 5 * span + 4, f"{busiest} updates of one widget in {span:.1f} s"
    pictures = sum(bool(content.get("data", {}).get("buffer_paths")) for _, kind, content in cell.messages if kind == "comm_msg")
    assert pictures <= 2 * span + 2, f"{pictures} pictures in {span:.1f} s"


def test_a_failed_run_keeps_its_cause_and_the_last_line_of_every_rank(kernel):
    cell = shown(kernel, "until=150")
    html = cell.outputs[0].data["text/html"]
    assert "<b>ValueError: bad &lt;sample&gt; 17</b>" in html
    assert "rank 3 (node 1, local rank 1, worker local), epoch 2/3, step 61/100, in cell 4 line 18" in html
    assert "[rank 3] last line before the error" in html


def test_a_view_that_is_dismissed_leaves_the_error_alone(kernel):
    cell = kernel.run(
        """
        from gpulayer_nb.ui.run_view import RunView
        history = RunHistory(); view = RunView(history); view.show(); history.say("3 of 4 ranks up"); view.refresh()
        view.dismiss(); print("refused")
    """.replace("\n        ", "\n")
    )
    assert [(output.output_type, output.get("text")) for output in cell.outputs] == [("stream", "refused\n")]


def test_what_users_print_cannot_become_markup_while_the_run_goes_on(kernel):
    evil = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
    cell = shown(kernel, f"output={evil + chr(10)!r}, names=('<b>loss',), run_id='<i>x'")
    sent = json.dumps([c for _, kind, c in cell.messages if kind in ("comm_msg", "comm_open", "update_display_data")])
    for markup in ("<script", "<img src=x", "<b>loss", "<i>x"):
        assert markup not in json.dumps(_html_values(sent)), markup
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in cell.outputs[0].data["text/html"]


def _html_values(sent: str) -> list[str]:
    found = []
    for content in json.loads(sent):
        data = content["data"]
        found += [str(v) for k, v in data.get("state", {}).items() if k == "value"] + [data.get("text/html", "")]
    return found
