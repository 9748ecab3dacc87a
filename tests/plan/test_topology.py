import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulayer_nb.errors import UsageError
from gpulayer_nb.plan.topology import RankPlace, Topology


def test_two_nodes_of_two_devices_are_four_ranks_in_order():
    places = Topology(2, 2).places()
    assert [(p.rank, p.node_rank, p.local_rank) for p in places] == [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)]


@given(nodes=st.integers(1, 64), devices=st.integers(1, 64))
def test_node_r_hosts_ranks_r_times_devices_onwards(nodes, devices):
    for place in Topology(nodes, devices).places():
        assert place == RankPlace(place.node_rank * devices + place.local_rank, place.node_rank, place.local_rank)
        assert place.node_rank * devices <= place.rank <= (place.node_rank + 1) * devices - 1


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2"])
def test_a_size_that_cannot_be_is_refused_with_the_right_form(size):
    with pytest.raises(UsageError, match=r"--devices is .*; it is a whole number of at least 1, for example `--devices 2`\."):
        Topology(1, size)


def test_a_rank_that_does_not_exist_names_those_that_do():
    with pytest.raises(UsageError, match=r"rank 4 does not exist: the ranks are 0 to 3\."):
        Topology(2, 2).place(4)


def test_the_shape_reads_as_an_equation():
    assert str(Topology(2, 2)) == "2 nodes × 2 devices = 4 ranks"
    assert str(Topology(1, 1)) == "1 node × 1 device = 1 rank"
