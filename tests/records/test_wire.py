from gpulayer_nb.records.wire import EngineIdentity, new_worker_uuid, worker_of


def test_an_engine_says_who_it_is_in_its_uuid():
    identity = EngineIdentity("a", "node-a.lab", 3, 4711)
    assert EngineIdentity.parse(identity.new_uuid()) == identity
    assert EngineIdentity.parse("b5a1c3") is None


def test_a_supervisor_is_no_engine():
    uuid = new_worker_uuid("local")
    assert worker_of(uuid) == "local"
    assert EngineIdentity.parse(uuid) is None
    assert worker_of(EngineIdentity("local", "here", 0, 1).new_uuid()) is None
