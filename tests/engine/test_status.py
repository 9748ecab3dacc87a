"""What a rank says of itself once a second."""

from __future__ import annotations

import sys
import time

import pytest
import torch

from gpulayer_nb.engine.status import PSS_EVERY, MemoryGauge, memory_bytes

CPU = torch.device("cpu")


@pytest.mark.skipif(sys.platform != "linux", reason="PSS is Linux's word")
def test_the_memory_of_a_rank_follows_what_it_takes_although_pss_is_read_rarely():
    gauge = MemoryGauge(CPU)
    before, share = gauge.read(), memory_bytes(CPU)
    assert before == pytest.approx(share, rel=0.05)
    ballast = torch.ones(8 * 2**20)  # 32 MiB
    started = time.thread_time()
    for _ in range(PSS_EVERY - 2):
        after = gauge.read()
    cost = (time.thread_time() - started) / (PSS_EVERY - 2)
    assert after - before == pytest.approx(ballast.numel() * 4, rel=0.2)
    assert cost < 0.002, "in between nothing is read that looks at every page"
