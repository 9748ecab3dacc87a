"""Runs in lines of text."""

import io

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RankOutput
from gpulayer_nb.ui.text_view import TextView


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def written(recorded_run, *, live: bool, seconds_per_record: float = 0.07, **options) -> str:
    history, stream, clock = RunHistory(lambda: 1030.0), io.StringIO(), Clock()
    view = TextView(history, stream, live=live, clock=clock)
    view.show()
    for record in recorded_run.recorded(**options):
        history.apply(record)
        clock.now += seconds_per_record
        view.refresh()
    view.finish()
    view.finish()
    return stream.getvalue()


def test_a_log_is_the_header_the_epochs_the_output_and_what_became_of_it(recorded_run):
    assert written(recorded_run, live=False) == (
        "2 nodes × 2 devices = 4 ranks · batch 32 × 4 = global batch 128\n"
        "learning rate unchanged · gloo · simulated nodes\n"
        "epoch 1/3  loss 1.038  val_loss 0.934  acc 0.147  val_acc 0.132\n"
        "epoch 2/3  loss 1.002  val_loss 0.901  acc 0.068  val_acc 0.061\n"
        "epoch 3/3  loss 0.825  val_loss 0.743  acc 0.045  val_acc 0.041\n"
        "[rank 0] 15000 images  [3 similar]\n"
        "finished: 3 epochs, 300 steps. Best val acc 0.132 after epoch 1.\n"
    )


def test_a_log_does_not_depend_on_when_it_is_refreshed(recorded_run):
    logs = {written(recorded_run, live=False, seconds_per_record=s) for s in (0.0, 0.01, 0.07, 0.5)}
    assert len(logs) == 1


def test_a_log_has_no_times_and_no_control_characters(recorded_run):
    text = written(recorded_run, live=False, output="\x1b[31mred\x1b[0m\rover\n")
    assert "\r" not in text
    assert "\x1b" not in text
    assert "samples" not in text
    assert ":0" not in text


def test_a_terminal_gets_one_line_that_is_rewritten(recorded_run):
    text = written(recorded_run, live=True)
    assert "\r" in text
    last = text.split("\r")[-1]
    assert last.startswith("run 3f2a finished: 3 epochs, 300 steps in 0:10.")
    assert "epoch 2/3  [###" in text


def test_equal_lines_that_come_together_fold_in_a_terminal():
    history, stream = RunHistory(), io.StringIO()
    for rank in (3, 1, 0, 2):
        history.apply(RankOutput(rank=rank, stream="stdout", text="15000 images\n"))
    history.apply(RankOutput(rank=2, stream="stdout", text="cache is cold\n"))
    TextView(history, stream, live=True).show()
    assert stream.getvalue() == "[rank 0] 15000 images  [3 similar]\n[rank 2] cache is cold\n"


def test_the_line_before_an_error_is_written_before_the_error(recorded_run):
    for live in (True, False):
        text = written(recorded_run, live=live, until=150)
        assert text.index("[rank 3] last line before the error") < text.index("ValueError: bad <sample> 17")
        assert text.rstrip().endswith("Next: correct cell 4.")


def test_a_dismissed_view_says_nothing():
    stream = io.StringIO()
    history = RunHistory()
    view = TextView(history, stream, live=True)
    view.show()
    history.apply(RankOutput(rank=0, stream="stdout", text="half"))
    view.dismiss()
    view.finish()
    assert stream.getvalue() == ""
