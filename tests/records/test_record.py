import json
import math

from gpulayer_nb.records.record import EpochMetrics, Notice, RankFailed, StepMetrics, decode, encode


def through_json(record):
    return decode(json.loads(json.dumps(encode(record), allow_nan=False)))


def test_a_record_survives_json():
    record = StepMetrics(time=1.5, steps=(1, 2), epochs=(0, 0), values={"loss": (0.5, None)}, ranks={"loss": (4, 0)}, samples=64)
    assert through_json(record) == record


def test_nan_and_infinity_survive_json_although_it_has_no_word_for_them():
    values = through_json(EpochMetrics(split="val", epoch=0, global_step=3, values={"a": math.nan, "b": -math.inf})).values
    assert math.isnan(values["a"])
    assert values["b"] == -math.inf


def test_the_word_nan_in_a_text_stays_a_word():
    assert through_json(Notice(text="nan")).text == "nan"
    assert through_json(RankFailed(rank=0, error_type="ValueError", message="inf")).message == "inf"


def test_a_kind_of_a_later_release_is_left_out_and_an_unknown_field_ignored():
    assert decode({"v": 1, "kind": "not_yet_known"}) is None
    assert decode({**encode(Notice(text="a")), "v": 99}) is None
    assert decode({**encode(Notice(text="a")), "new_field": 1}) == Notice(text="a")
