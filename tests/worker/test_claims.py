"""Two clients on one worker: each has its own engines, one that is silent loses them."""

from gpulayer_nb.worker.claims import SILENT_SECONDS, Claims


def test_a_slot_belongs_to_one_client_and_the_other_learns_to_whom():
    claims = Claims(4)
    assert claims.take("a", "ada", [0, 1], 0.0) is None
    assert claims.take("b", "bob", [1, 2], 0.0) == "busy with ada"
    assert claims.take("b", "bob", [2, 3], 0.0) is None
    assert claims.allows("a", [0]) and claims.allows("b", [3]) and not claims.allows("b", [0]) and not claims.allows("c", [0])


def test_a_client_may_ask_again_for_other_slots_of_its_own():
    claims = Claims(2)
    claims.take("a", "ada", [0], 0.0)
    assert claims.take("a", "ada", [0, 1], 1.0) is None
    assert claims.release("a") == (0, 1)
    assert claims.take("b", "bob", [0, 1], 1.0) is None


def test_a_slot_that_is_not_there_cannot_be_claimed():
    assert Claims(2).take("a", "ada", [1, 2], 0.0) == "it has 2 devices, not 3"


def test_a_claim_lasts_while_it_is_renewed():
    claims = Claims(1)
    claims.take("a", "ada", [0], 0.0)
    assert claims.renew("a", 10.0) and claims.expire(10.0 + SILENT_SECONDS) == []
    assert [claim.token for claim in claims.expire(10.1 + SILENT_SECONDS)] == ["a"]
    assert not claims.renew("a", 30.0)
