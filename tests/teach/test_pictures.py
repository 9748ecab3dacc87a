"""The pictures: their data are right, their words say it, and they can be read from the last row."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from legible import complaints
from PIL import Image
from torch.utils.data import DistributedSampler

from gpulayer_nb import teach
from gpulayer_nb.errors import UsageError
from gpulayer_nb.teach.clocks.rank_log import Span
from gpulayer_nb.teach.clocks.step_clock import StepTimes
from gpulayer_nb.teach.pictures.gradient_bars import averages
from gpulayer_nb.teach.pictures.look import COMPUTE, DARK, LIGHT, RANK_COLORS, WIRE, Theme, contrast, ink_on
from gpulayer_nb.teach.pictures.parameter_drift import largest_gap
from gpulayer_nb.teach.pictures.ring_allreduce import ring_states
from gpulayer_nb.teach.pictures.sample_grid import holders
from gpulayer_nb.teach.pictures.scaling import serial_share, speed_ups
from gpulayer_nb.teach.pictures.step_timeline import in_lanes, middle_step, waiting
from gpulayer_nb.teach.pictures.waiting_ranks import odd_ones, verdict


def shards(epoch: int | None) -> list[list[int]]:
    dealt = []
    for rank in range(4):
        sampler = DistributedSampler(range(10), 4, rank, shuffle=epoch is not None, seed=0)
        sampler.set_epoch(epoch or 0)
        dealt.append(list(sampler))
    return dealt


def step(start: float, *, waits: float = 0.0) -> StepTimes:
    """A step of 0.1 s with two buckets of which the second ends `waits` after the backward pass."""
    return StepTimes(
        (start, start + 0.03), (start + 0.03, start + 0.08 + waits), (start + 0.08 + waits, start + 0.09 + waits),
        ((0, start + 0.05, start + 0.07), (1, start + 0.07, start + 0.08 + waits)),
    )  # fmt: skip


def skipped() -> list[list[Span]]:
    """Four ranks, three steps; rank 2 skips step 1, so that its later calls meet the others' earlier ones."""
    lanes = []
    for rank in range(4):
        lane, at = [], 100.0
        for number in (0, 2, 3) if rank == 2 else (0, 1, 2):
            lane.append(Span("compute", number, at, at + 0.1))
            lane.append(Span("collective", number, at + 0.1, at + 0.15))
            at += 0.2
        lanes.append(lane if rank == 2 else [*lane, Span("compute", 3, at, at + 0.1), Span("wait", 3, at + 0.1, None)])
    return lanes


TRAININGS = [
    teach.Training("one rank", 1, 32, 0.1, 45, (2.2, 1.8, 1.2, 0.7, 0.52)),
    teach.Training("lr unchanged", 4, 32, 0.1, 12, (2.3, 2.2, 2.2, 2.1, 2.0)),
    teach.Training("lr × 4", 4, 32, 0.4, 12, (2.2, 1.9, 1.2, 0.7, 0.516)),
]
PICTURES: dict[str, Callable[[Theme], teach.Picture]] = {
    "rank tree 2 × 2": lambda theme: teach.rank_tree(2, 2, device_kind="cpu", theme=theme),
    "rank tree 2 × 4": lambda theme: teach.rank_tree(2, 4, theme=theme),
    "rank tree 1 × 1": lambda theme: teach.rank_tree(1, 1, theme=theme),
    "rank tree 8 × 1": lambda theme: teach.rank_tree(8, 1, theme=theme),
    "rank tree 1 × 16": lambda theme: teach.rank_tree(1, 16, theme=theme),
    "rank tree 16 × 8": lambda theme: teach.rank_tree(16, 8, theme=theme),
    "sample grid": lambda theme: teach.sample_grid({"not shuffled": shards(None), "epoch 1": shards(1)}, theme=theme),
    "gradient bars": lambda theme: teach.gradient_bars(
        [[0.1, -0.2, 0.05], [0.2, 0.1, 0.0]], [[0.15, -0.05, 0.025]] * 2, layer="the last layer", theme=theme
    ),
    "gradient of one weight": lambda theme: teach.gradient_of_one_weight([-52, -80, -116, -160], [-102] * 4, theme=theme),
    "ring of 2": lambda theme: teach.ring_allreduce(2, theme=theme),
    "ring of 3": lambda theme: teach.ring_allreduce(3, theme=theme),
    "ring of 4": lambda theme: teach.ring_allreduce(4, theme=theme),
    "drift": lambda theme: teach.parameter_drift(
        [[0, 0.3, 1.13], [0, 0.4, 1.48], [0, 0.6, 1.74], [0, 0.8, 1.9]], [[0, 0.5, 1.66]] * 4, theme=theme
    ),
    "timeline": lambda theme: teach.step_timeline(
        [[step(5.0 + rank / 100, waits=0.02)] for rank in range(4)], title="DDP", note="made up: four ranks", theme=theme
    ),
    "scaling": lambda theme: teach.scaling(
        {1: [0.1, 0.11], 2: [0.06], 4: [0.07]}, {1: [0.04], 2: [0.05], 4: [0.1]}, cores=2, note="made up", theme=theme
    ),
    "global batch": lambda theme: teach.global_batch(TRAININGS, title="More ranks, larger global batch", theme=theme),
    "waiting ranks": lambda theme: teach.waiting_ranks(skipped(), title="Rank 2 skipped a step", note="made up", theme=theme),
    "cost": lambda theme: teach.allreduce_cost(
        {2: {1000: 4e-4, 10**6: 1.2e-3, 4 * 10**7: 0.033}, 4: {1000: 2.5e-3, 10**6: 4.1e-3, 4 * 10**7: 0.066}},
        note="made up", theme=theme,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_can_be_read_from_the_last_row(name: str) -> None:
    picture = PICTURES[name](LIGHT)
    assert complaints(picture.figure) == []
    drawn = Image.open(io.BytesIO(picture.png))
    assert drawn.width == 1200
    assert drawn.text["Description"] == picture.alt
    assert len(picture.png) < 60_000
    assert len(picture.alt) > 80


def test_a_notebook_gets_the_picture_with_its_words_as_alt_text_and_folded_below(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **more: shown.append((data, more)))
    picture = teach.rank_tree(2, 2)
    picture._ipython_display_()
    (image, more), (words, _) = shown
    assert image["image/png"].startswith(b"\x89PNG")
    assert more["metadata"]["image/png"]["alt"] == picture.alt
    assert picture.alt in words["text/html"]
    assert words["text/html"].startswith("<details>")


def test_a_dark_page_gets_a_dark_picture() -> None:
    drawn = Image.open(io.BytesIO(PICTURES["gradient of one weight"](DARK).png)).convert("RGB")
    assert "#{:02X}{:02X}{:02X}".format(*drawn.getpixel((5, 5))) == DARK.face


def test_text_and_shapes_have_enough_contrast_in_both_themes() -> None:
    for theme in (LIGHT, DARK):
        for text, ground in (
            (theme.ink, theme.face),
            (theme.muted, theme.face),
            (theme.ink, theme.fill),
            (theme.muted, theme.fill),
        ):
            assert contrast(text, ground) >= 4.5
        for color in RANK_COLORS:
            assert contrast(color, theme.face) >= 3
    for color in (*RANK_COLORS, *COMPUTE.values(), WIRE):
        assert contrast(ink_on(color), color) >= 4.5


def test_the_tree_says_both_ids_and_draws_without_a_group_only_what_it_is_told() -> None:
    assert "node 1: ranks 4 to 7" in teach.rank_tree(2, 4).alt
    with pytest.raises(UsageError, match="2 nodes × 4 devices"):
        teach.rank_tree(2)
    with pytest.raises(UsageError, match="No ranks are up"):
        teach.rank_tree()


def test_the_grid_shows_every_holder_and_names_what_is_used_twice() -> None:
    dealt = shards(None)
    assert [holders(dealt, i) for i in range(10)] == [[0, 2], [1, 3], [2], [3], [0], [1], [2], [3], [0], [1]]
    picture = teach.sample_grid({"not shuffled": dealt})
    assert "sample 0 is used by ranks 0 and 2 in not shuffled" in picture.alt
    assert "sample 2 is used" not in picture.alt
    with pytest.raises(UsageError, match="1 to 12 samples"):
        teach.sample_grid({"many": [list(range(20))]})


def test_the_average_of_gradients_is_taken_entry_by_entry() -> None:
    assert averages([[-52.0, 1.0], [-80.0, 3.0]]) == [-66.0, 2.0]
    assert "−102" in teach.gradient_of_one_weight([-52, -80, -116, -160], [-102] * 4).alt


@pytest.mark.parametrize("world", [2, 3, 4, 7])
def test_a_ring_ends_with_everything_everywhere_after_2_n_minus_1_steps_of_one_message_a_rank(world: int) -> None:
    states = ring_states(world)
    assert len(states) == 1 + 2 * (world - 1)
    assert all(cell == frozenset(range(world)) for row in states[-1].contents for cell in row)
    for state in states[1:]:
        assert sorted(rank for rank, _ in state.received) == list(range(world))
    half = states[world - 1].contents  # reduce-scatter leaves each rank one finished chunk
    assert [sum(cell == frozenset(range(world)) for cell in row) for row in half] == [1] * world


def test_the_ring_refuses_what_would_be_too_small_to_read() -> None:
    with pytest.raises(UsageError, match="2, 3 or 4 ranks, got 8"):
        teach.ring_allreduce(8)


def test_the_gap_is_the_widest_at_any_step() -> None:
    assert largest_gap([[0.0, 1.0, 2.0], [0.0, 3.0, 2.5]]) == 2.0


def test_the_timeline_shows_the_step_of_median_length_in_milliseconds_from_its_start() -> None:
    ranks = [
        [step(1.0), step(2.0, waits=0.02), step(3.0, waits=0.5)],
        [step(1.001), step(2.001, waits=0.02), step(3.001, waits=0.5)],
    ]
    first, second = middle_step(ranks)
    assert first.forward == pytest.approx((0.0, 30.0))
    assert second.forward == pytest.approx((1.0, 31.0))
    assert waiting(first) == pytest.approx(30.0)  # from the last bucket at 70 ms to the optimizer at 100


def test_buckets_in_flight_together_get_lanes_of_their_own() -> None:
    assert in_lanes([(0, 0.0, 2.0), (1, 1.0, 3.0), (2, 2.5, 4.0)]) == [(0, 0, 0.0, 2.0), (1, 1, 1.0, 3.0), (0, 2, 2.5, 4.0)]


def test_speed_ups_and_the_serial_share_are_amdahls() -> None:
    assert speed_ups({1: [0.12, 0.10], 4: [0.04, 0.05]}) == {1: 1.0, 4: pytest.approx(2.5)}
    assert teach.amdahl(4, serial_share(teach.amdahl(2, 0.27))) == pytest.approx(teach.amdahl(4, 0.27))
    assert serial_share(2.3) == 0.0
    with pytest.raises(UsageError, match="1 and of 2 ranks"):
        teach.scaling({2: [1.0]}, {1: [1.0], 2: [1.0]}, cores=2, note="")


def test_latency_and_bandwidth_are_read_from_the_smallest_and_the_largest_message() -> None:
    latency, bandwidth = teach.latency_and_bandwidth({0: 0.001, 10**6: 0.003, 10**7: 0.021})
    assert latency == pytest.approx(0.001)
    assert bandwidth == pytest.approx(5e8)
    with pytest.raises(UsageError, match="two sizes"):
        teach.latency_and_bandwidth({1000: 0.001})


def test_a_rank_that_brought_another_step_is_found_and_named() -> None:
    assert odd_ones(skipped()) == [(1, 2, 2, 1), (2, 2, 3, 2)]
    assert verdict(skipped()[2], 4) == "has finished: 1 collective fewer than the others"
    assert verdict(skipped()[0], 4) == "waits in its collective of step 3"
    words = teach.waiting_ranks(skipped(), title="Skipped", note="made up").alt
    assert "In collective 2 rank 2 brought step 2 and the others step 1." in words


def test_a_picture_of_more_trainings_than_can_be_told_apart_is_refused() -> None:
    with pytest.raises(UsageError, match="1 to 3 trainings, got 4"):
        teach.global_batch([*TRAININGS, TRAININGS[0]], title="")
