"""What a session answers before anything has been started."""

from gpulayer_nb.client.session import Session
from gpulayer_nb.records import wire


def test_without_ranks_there_is_no_answer_and_no_error():
    assert Session({}).ask_rank_zero(wire.COMPLETE, {"text": "name"}, 0.1) == {}
