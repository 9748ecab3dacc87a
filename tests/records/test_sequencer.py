from hypothesis import given
from hypothesis import strategies as st

from gpulayer_nb.records.sequencer import Sequencer


@given(st.permutations(range(8)), st.lists(st.integers(0, 7)))
def test_batches_come_out_in_order_and_once_whatever_comes_late_or_twice(order, repeats):
    sequencer = Sequencer()
    out = [batch["seq"] for number in [*order, *repeats] for batch in sequencer.take({"seq": number})]
    assert out == list(range(8))
    assert sequencer.missing_from is None


def test_a_gap_is_known_and_holds_back_what_follows():
    sequencer = Sequencer()
    assert [b["seq"] for b in sequencer.take({"seq": 0})] == [0]
    assert sequencer.take({"seq": 2}) == []
    assert sequencer.missing_from == 1
    assert [b["seq"] for b in sequencer.give_up()] == [2]
    assert sequencer.missing_from is None
