from datetime import timedelta

import pytest

from gpulayer_nb.api.shape import check_target, seconds, target_for, topology_for, whole_number
from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import Topology


def shape(nodes, devices, present=None, default=2):
    return topology_for(nodes, devices, present, accelerator="auto", default_devices=default)


def test_what_is_left_out_is_the_present_shape_or_the_default():
    assert shape(None, None, Topology(2, 2)) == Topology(2, 2)
    assert shape(None, None) == Topology(1, 2)
    assert shape(2, None, Topology(1, 3)) == Topology(2, 2)
    assert shape(None, 3, Topology(2, 2)) == Topology(1, 3)
    assert shape(2, "auto", default=1) == Topology(2, 1)
    assert shape("2", "3") == Topology(2, 3)


@pytest.mark.parametrize("wrong", [1.5, "two", None, "1.5", ""])
def test_a_size_that_is_no_whole_number_is_refused(wrong):
    with pytest.raises(UsageError, match="it is a whole number of at least 1, for example 2"):
        whole_number(wrong, "--devices")


def test_a_list_of_devices_is_told_how_to_write_their_number():
    with pytest.raises(UsageError, match=r"--devices is \[0, 1\]; give the number of devices on each node, for example 2"):
        whole_number([0, 1], "--devices")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("00:10:00", 600.0),
        ("10:00", 600.0),
        ("90", 90.0),
        (90, 90.0),
        ("1:00:00:00", 86400.0),
        (timedelta(minutes=2), 120.0),
        ({"minutes": 2}, 120.0),
    ],
)
def test_a_time_is_read_in_every_usual_form(text, value):
    assert seconds(text, "--max-time") == value


@pytest.mark.parametrize("text", ["soon", "0", "-5", "1:2:3:4:5", ""])
def test_a_time_that_is_none_is_refused_with_the_right_form(text):
    with pytest.raises(UsageError, match="write hours:minutes:seconds as in 00:10:00"):
        seconds(text, "--max-time")


def test_a_target_is_a_word_and_the_one_in_use_unless_another_is_asked_for():
    assert check_target(" lab ") == "lab"
    with pytest.raises(UsageError, match="target is ''; it is `local`, `remote`, the name of a running cluster"):
        check_target("")
    assert [target_for(None, None), target_for(None, "lab"), target_for("local", "lab")] == ["local", "lab", "local"]
