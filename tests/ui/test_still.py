"""What a saved notebook keeps: readable without styles, small, safe."""

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser

from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import EpochMetrics, RunEnded
from gpulayer_nb.ui.still import static_bundle

ALLOWED = {"div", "p", "b", "br", "code", "img", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre", "span"}


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_the_html_is_plain(told):
    data, _ = static_bundle(told())
    tags = Tags(data["text/html"]).seen
    assert {tag for tag, _ in tags} <= ALLOWED
    assert not any(set(attributes) & {"style", "class", "onclick"} for _, attributes in tags)


def test_the_table_holds_the_numbers_of_the_metrics(told):
    history = told()
    data, _ = static_bundle(history)
    last = re.findall(r"<td>([^<]*)</td>", data["text/html"])[12:18]
    assert last[:2] == ["3", "300"]
    assert last[2:] == [f"{history.metrics[n]:.3f}" for n in ("loss", "val_loss", "acc", "val_acc")]
    assert "<th>loss</th><th>val_loss</th><th>acc</th><th>val_acc</th>" in data["text/html"]


def test_what_users_print_raise_or_name_cannot_become_markup(told):
    evil = "</pre><script>alert(1)</script>"
    for options in ({"output": evil + "\n"}, {"names": ("loss" + evil,)}, {"run_id": evil}, {"until": 150}):
        data, _ = static_bundle(told(**options))
        assert {tag for tag, _ in Tags(data["text/html"]).seen} <= ALLOWED, options


def test_a_long_run_is_small(told):
    history = told(epochs=4, steps=25_000, flush=1000, names=("loss", "acc", "lr", "norm"))
    data, metadata = static_bundle(history)
    assert sum(map(len, data.values())) < 200_000
    assert metadata["image/png"] == {"width": 960, "height": 424}


def test_the_picture_stands_on_plain_white(told):
    data, _ = static_bundle(told())
    picture = base64.b64decode(data["image/png"])
    assert picture[25] == 3, "a palette, so no opacity"
    palette = picture[picture.index(b"PLTE") + 4 :][:3]
    assert palette == b"\xff\xff\xff", "the most frequent colour is exactly white"


def test_a_run_without_steps_has_a_table_and_no_picture(recorded_run):
    history = RunHistory(lambda: 1001.0)
    history.apply(recorded_run.started(mode="validate"))
    history.apply(EpochMetrics(split="val", epoch=0, global_step=0, values={"val_loss": 0.25}, samples=10))
    data, _ = static_bundle(history)
    assert sorted(data) == ["text/html", "text/plain"]
    assert "<td>0.250</td>" in data["text/html"]


def test_the_text_fits_eighty_columns_whatever_the_metrics_are_called(told):
    data, _ = static_bundle(told(names=("loss", "a_rather_long_metric_name", "another_long_metric_name")))
    lines = data["text/plain"].splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("not shown: ") for line in lines)


def test_many_epochs_show_the_last_and_say_so(told):
    data, _ = static_bundle(told(epochs=40, steps=20))
    assert "28 earlier epochs" in data["text/html"]
    assert "28 earlier epochs" in data["text/plain"]


def test_a_message_that_names_the_error_says_it_once(recorded_run):
    history = RunHistory(lambda: 1030.0)
    for record in recorded_run.recorded(until=100):
        if isinstance(record, RunEnded):
            record = replace(record, message="ValueError: bad <sample> 17 — rank 3 (node 1), epoch 1. Next: correct the cell.")
        history.apply(record)
    data, _ = static_bundle(history)
    for form, raised in (("text/html", "bad &lt;sample&gt; 17"), ("text/plain", "bad <sample> 17")):
        assert data[form].count(raised) == 1
        assert data[form].count("rank 3 (node 1") == 1
