"""One rank's records: the same on the wire, in the file and for those who ask again; the past that is kept is bounded."""

import json
import uuid
from pathlib import Path

import pytest
import zmq
from jupyter_client.session import Session

from gpulayer_nb.engine import publisher as publishing
from gpulayer_nb.engine.publisher import Publisher
from gpulayer_nb.records.record import RankOutput, decode


class Wire:
    """A publisher's socket and what arrives at the other end."""

    def __init__(self, records_file):
        context = zmq.Context.instance()
        self.session = Session(key=b"key")
        self.sent, self.received = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        place = f"inproc://{uuid.uuid4().hex}"  # zmq lets go of a name some time after its socket was closed
        self.sent.bind(place)
        self.received.connect(place)
        self.publisher = Publisher(self.session, self.sent, "run", 3, records_file)

    def next(self):
        assert self.received.poll(5000)
        _, message = self.session.recv(self.received, mode=0)
        return message["content"]

    def close(self):
        self.publisher.close()
        self.sent.close(0)
        self.received.close(0)


@pytest.fixture
def wire(tmp_path):
    made = Wire(tmp_path / "records.jsonl")
    yield made
    made.close()


def output(text):
    return RankOutput(time=1.0, rank=3, stream="stdout", text=text)


def test_a_batch_is_the_same_on_the_wire_in_the_file_and_when_asked_again(wire, tmp_path):
    wire.publisher.publish(output("naïve 中\n"), output("\x1b[31mred"))
    wire.publisher.publish(output("more"))
    arrived = [wire.next(), wire.next()]
    assert [(batch["run_id"], batch["rank"], batch["seq"]) for batch in arrived] == [("run", 3, 0), ("run", 3, 1)]
    assert [decode(record).text for batch in arrived for record in batch["records"]] == ["naïve 中\n", "\x1b[31mred", "more"]
    assert wire.publisher.since(0) == arrived
    assert wire.publisher.since(1) == arrived[1:]
    assert [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()] == arrived


def test_the_past_is_bounded_in_bytes_and_has_no_hole(wire):
    each = publishing.KEPT_BYTES // 10
    for _ in range(30):
        wire.publisher.publish(output("x" * each))
    kept = [batch["seq"] for batch in wire.publisher.since(0)]
    assert kept == list(range(kept[0], 30))
    assert 8 <= len(kept) <= 10


def test_one_batch_that_is_larger_than_the_bound_is_kept(wire):
    wire.publisher.publish(output("small"))
    wire.publisher.publish(output("x" * (publishing.KEPT_BYTES + 1)))
    assert [batch["seq"] for batch in wire.publisher.since(0)] == [1]


def test_a_full_disk_is_told_once_with_the_records_that_found_it():
    made = Wire(Path("/dev/full"))
    try:
        made.publisher.publish(output("first"))
        made.publisher.publish(output("second"))
        first, second = made.next(), made.next()
        assert [type(decode(record)).__name__ for record in first["records"]] == ["RankOutput", "Notice"]
        assert "No space left on device" in decode(first["records"][1]).text
        assert [decode(record).text for record in second["records"]] == ["second"]
        assert made.publisher.since(0) == [first, second]
    finally:
        made.close()
