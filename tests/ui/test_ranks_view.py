"""The output of a `%%ranks` cell: live, in rank order, one stream in the saved notebook."""

import io

from gpulayer_nb.records.output_log import OutputLog
from gpulayer_nb.ui.ranks_view import RanksView


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def view_of(log: OutputLog) -> tuple[RanksView, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    view = RanksView(log, rich=False, stream=stream, clock=clock)
    view.show()
    return view, stream, clock


def test_a_terminal_gets_lines_as_they_come_and_each_once():
    log = OutputLog()
    view, stream, clock = view_of(log)
    log.write(1, "stdout", "b\n")
    log.write(0, "stdout", "a\npart")
    clock.now = 1
    view.refresh()
    assert stream.getvalue() == "[rank 0] a\n[rank 1] b\n"
    log.write(0, "stdout", "ial\n")
    view.finish({0: "6", 1: "6"})
    assert stream.getvalue() == "[rank 0] a\n[rank 1] b\n[rank 0] partial\n[rank 0] Out: 6\n[rank 1] Out: 6\n"


def test_a_terminal_is_written_to_at_most_five_times_a_second():
    log = OutputLog()
    view, stream, clock = view_of(log)
    writes = 0
    for i in range(100):
        clock.now = i / 100
        log.write(0, "stdout", f"{i}\n")
        before = stream.tell()
        view.refresh()
        writes += stream.tell() > before
    assert writes <= 5


def test_a_value_of_several_lines_stands_under_its_first():
    view, stream, _ = view_of(OutputLog())
    view.finish({1: "tensor([[1.],\n        [2.]])"})
    assert stream.getvalue() == "[rank 1] Out: tensor([[1.],\n[rank 1]              [2.]])\n"


def test_no_output_and_no_value_write_nothing():
    view, stream, _ = view_of(OutputLog())
    view.finish({})
    view.finish({0: "not again"})
    assert stream.getvalue() == ""


QUICK = """
from gpulayer_nb.records.output_log import OutputLog
from gpulayer_nb.ui.ranks_view import RanksView
log = OutputLog(); view = RanksView(log); view.show()
"""


def test_a_quick_cell_leaves_one_stream_and_shows_nothing_before(kernel):
    cell = kernel.run(
        QUICK + "log.write(1,'stdout','b\\n'); log.write(0,'stdout','a'); view.refresh(); view.finish({0: '1', 1: '2'})"
    )
    assert [output.output_type for output in cell.outputs] == ["stream"]
    assert cell.outputs[0].text == "[rank 0] a\n[rank 1] b\n[rank 0] Out: 1\n[rank 1] Out: 2\n"
    assert "display_data" not in [kind for _, kind, _ in cell.messages]


def test_a_long_cell_is_live_in_one_display_and_ends_as_one_stream(kernel):
    cell = kernel.run(QUICK + """
import time
for i in range(100):
    for rank in range(4):
        log.write(rank, "stdout", f"line {i:03d} of rank {rank} \\x1b[31m<red>\\x1b[0m\\n")
        log.write(rank, "stderr", f"\\r{i + 1}/100 [00:0{rank}]")
    view.refresh(); time.sleep(0.012)
view.finish()
""")  # fmt: skip
    assert [output.output_type for output in cell.outputs] == ["stream"]
    lines = cell.outputs[0].text.splitlines()
    assert [line for line in lines if "line" in line] == [
        f"[rank {rank}] line {i:03d} of rank {rank} \x1b[31m<red>\x1b[0m" for rank in range(4) for i in range(100)
    ]
    assert [line for line in lines if "/100" in line] == ["[rank 0] 100/100 [00:00]  [3 similar]"]
    displays = [(arrival, content) for arrival, kind, content in cell.messages if kind in ("display_data", "update_display_data")]
    assert 2 <= len(displays) <= 10
    assert len({content["transient"]["display_id"] for _, content in displays}) == 1
    assert "&lt;red&gt;" in displays[0][1]["data"]["text/html"]
    assert "\x1b[31m" in displays[0][1]["data"]["text/plain"]


def test_a_long_cell_without_a_word_leaves_nothing(kernel):
    assert kernel.run(QUICK + "time.sleep(0.6); view.refresh(); view.finish()").outputs == []
