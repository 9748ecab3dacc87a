"""What is sent to the panel: all of it once, then what is new; little even with hundreds of ranks."""

from __future__ import annotations

import json
import random
from typing import Any

from gpulayer_nb.server.snapshot import DELTAS_FROM, Changes, Snapshot, difference


def rank(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "slot": number, "rank": number, "engine": number, "pid": 40000 + number, "node": number // 8, "local_rank": number % 8,
        "device": f"cuda:{number % 8}", "state": "running", "detail": "", "step": 18204, "rate": 1290.0, "rates": [1290.0] * 40,
        "cpu": 97, "memory": 2191, "machine": 31744, "gpu": 98.0, "gpu_memory": 13210, "gpu_total": 15974, "gpu_name": "Tesla T4",
        "collective": None, "entered": 0, **fields,
    }  # fmt: skip


def snapshot(number: int, **fields: Any) -> Snapshot:
    ranks = {f"hall/w{n // 8}/{n % 8}": rank(n, **fields) for n in range(number)}
    workers = [
        {"key": f"w{w}", "name": f"w{w}", "address": f"10.0.0.{w}", "facts": "torch 2.13.0", "offers": "8 × T4", "free": 0,
         "ranks": [key for key in ranks if key.startswith(f"hall/w{w}/")]}
        for w in range(number // 8)
    ]  # fmt: skip
    run = {"id": "20260131-142305-3f2a", "state": "running", "step": 18204, "curve": [0.5] * 60, "metrics": {"loss": 2.31}}
    return Snapshot([{"name": "hall", "state": "running", "workers": workers}], ranks, [run])


def test_few_ranks_are_always_sent_whole_and_nothing_is_sent_twice() -> None:
    changes = Changes()
    assert (changes.message(snapshot(8)) or {})["type"] == "whole"
    assert changes.message(snapshot(8)) is None
    assert (changes.message(snapshot(8, step=9)) or {})["type"] == "whole"


def test_of_many_ranks_only_what_is_new_is_sent() -> None:
    changes = Changes()
    before, now = snapshot(DELTAS_FROM), snapshot(DELTAS_FROM)
    now.ranks["hall/w1/3"].update(step=18205, rates=[1.0], rate=1.0)
    assert (changes.message(before) or {})["type"] == "whole"
    assert changes.message(now) == {"type": "changes", "protocol": 1, "ranks": {"hall/w1/3": {"step": 18205, "rate": 1.0}}}


def test_a_rank_that_comes_is_sent_whole_and_one_that_goes_by_its_key() -> None:
    before, now = snapshot(32), snapshot(32)
    now.ranks["hall/w9/0"] = now.ranks.pop("hall/w3/7")
    message = difference(before, now)
    assert message["gone"] == ["hall/w3/7"]
    assert message["ranks"] == {"hall/w9/0": now.ranks["hall/w9/0"]}


def test_a_run_is_sent_in_parts_and_the_list_only_when_it_has_others() -> None:
    before, now = snapshot(32), snapshot(32)
    now.runs[0]["step"] = 18300
    assert difference(before, now)["run_changes"] == {"20260131-142305-3f2a": {"step": 18300}}
    now.runs.insert(0, {"id": "20260131-150000-0000"})
    assert [run["id"] for run in difference(before, now)["runs"]] == ["20260131-150000-0000", "20260131-142305-3f2a"]


def test_256_busy_ranks_take_less_than_20_kilobytes_a_second() -> None:
    """Every rank has made steps and all its numbers have moved; one such message a second is sent, before compression."""
    numbers, changes, before = random.Random(1), Changes(), snapshot(256)
    changes.message(before)
    sizes = []
    for second in range(1, 4):
        now = snapshot(256)
        for row in now.ranks.values():
            row.update(step=18204 + 9 * second, rate=float(f"{numbers.gauss(1290, 20):.3g}"), cpu=numbers.randint(93, 100))
            row.update(memory=2191 + second, gpu=float(numbers.randint(90, 100)))
        now.runs[0].update(step=18204 + 9 * second, metrics={"loss": 2.31 + second / 100}, curve=[0.5 + second] * 60)
        sizes.append(len(json.dumps(changes.message(now), separators=(",", ":"))))
    assert max(sizes) <= 20_000, sizes
