"""The last lines of an engine, as a terminal would show them."""

from __future__ import annotations

from gpulayer_nb.server.rank_output import LINE_CHARACTERS, LINES, RankOutput


def test_text_comes_in_pieces_and_lines_come_out() -> None:
    output = RankOutput()
    for piece in ("one\ntw", "o\nthr"):
        output.write(piece)
    assert output.tail() == ["one", "two", "thr"]


def test_a_progress_bar_leaves_its_last_state() -> None:
    output = RankOutput()
    output.write("10 %\r50 %\r100 %\ndone\n")
    assert output.tail() == ["100 %", "done"]


def test_only_the_last_lines_are_kept_and_none_is_endless() -> None:
    output = RankOutput()
    output.write("".join(f"{n}\n" for n in range(LINES + 10)))
    output.write("x" * 10 * LINE_CHARACTERS)
    assert len(output.tail()) == LINES
    assert len(output.tail()[-1]) == LINE_CHARACTERS
    assert output.tail(2)[0] == str(LINES + 9)
