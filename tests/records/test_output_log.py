"""Lines of ranks: partial lines, carriage returns, folding, limits."""

from gpulayer_nb.records.output_log import OutputLog, OutputReader, labelled


def shown(log: OutputLog, rank: int = 0) -> list[str]:
    return [line.shown for line in log.lines(rank)]


def test_text_that_arrives_in_pieces_becomes_whole_lines() -> None:
    log = OutputLog()
    for piece in ("one\ntw", "o\n", "thr", "ee"):
        log.write(0, "stdout", piece)
    assert shown(log) == ["one", "two", "three"]
    assert [line.is_open for line in log.lines(0)] == [False, False, True]


def test_a_progress_bar_leaves_its_last_state_as_one_line() -> None:
    log = OutputLog()
    log.write(0, "stderr", "\r  0%|          | 0/50")
    for i in range(1, 51):
        log.write(0, "stderr", f"\r{2 * i:3d}%|{'█' * (i // 5):10s}| {i}/50")
        log.write(0, "stdout", f"step {i}\n")
    log.write(0, "stderr", "\n")
    assert shown(log)[0] == "100%|██████████| 50/50"
    assert shown(log)[1:] == [f"step {i}" for i in range(1, 51)]


def test_a_shorter_text_after_a_carriage_return_leaves_the_end_of_the_longer_one_as_a_terminal_does() -> None:
    log = OutputLog()
    log.write(0, "stdout", "abcdef\rXY\n")
    assert shown(log) == ["XYcdef"]


def test_carriage_return_and_newline_together_end_a_line() -> None:
    log = OutputLog()
    log.write(0, "stdout", "one\r")
    log.write(0, "stdout", "\ntwo\r\n")
    assert shown(log) == ["one", "two"]
    assert not any(line.rewritten for line in log.lines(0))


def test_bars_stacked_with_cursor_up_stay_two_lines() -> None:
    log = OutputLog()
    for i in range(5):
        log.write(0, "stderr", f"\router {i}/5")
        for j in range(3):
            log.write(0, "stderr", f"\n\rinner {j}/3\x1b[A")
    assert shown(log) == ["outer 4/5", "inner 2/3"]


def test_a_bar_that_wipes_itself_leaves_nothing() -> None:
    log = OutputLog()
    log.write(0, "stderr", "\r50%|#####     |\r               \r")
    assert shown(log) == []
    assert log.text() == ""


def test_an_escape_sequence_cut_in_two_is_read_as_one() -> None:
    log = OutputLog()
    log.write(0, "stdout", "a\x1b[3")
    log.write(0, "stdout", "1mred\x1b[0m\n")
    assert shown(log) == ["a\x1b[31mred\x1b[0m"]


def test_four_ranks_with_a_hundred_lines_and_a_bar_each_give_all_lines_in_order_and_one_bar() -> None:
    log = OutputLog()
    for i in range(100):
        for rank in (2, 0, 3, 1):
            log.write(rank, "stdout", f"line {i:03d} of rank {rank}\n")
            log.write(rank, "stderr", f"\r{i + 1:3d}%|{'█' * (i // 10)}| {i + 1}/100 [00:0{rank}<00:00, {97 + rank}.{rank}it/s]")
    lines = log.text().splitlines()
    bars = [line for line in lines if "it/s" in line]
    assert bars == ["[rank 0] 100%|█████████| 100/100 [00:00<00:00, 97.0it/s]  [3 similar]"]
    assert [line for line in lines if "it/s" not in line] == [
        f"[rank {rank}] line {i:03d} of rank {rank}" for rank in range(4) for i in range(100)
    ]


def test_equal_lines_fold_under_the_first_rank_that_wrote_them() -> None:
    log = OutputLog()
    for rank in range(4):
        log.write(rank, "stdout", "15000 images\n")
    log.write(2, "stdout", "cache is cold\n")
    log.write(0, "stdout", "15000 images\n")
    folded = log.folded()
    assert [(item.line.text, item.similar, item.first_rank) for item in folded[0]] == [
        ("15000 images", 3, 0),
        ("15000 images", 0, 0),
    ]
    assert [item.first_rank for item in folded[2]] == [0, 2]


def test_only_the_last_lines_are_kept_and_the_others_counted() -> None:
    log = OutputLog(max_lines=10)
    for i in range(25):
        log.write(1, "stdout", f"{i}\n")
    assert shown(log, 1) == [str(i) for i in range(15, 25)]
    assert (log.dropped(1), log.count(1)) == (15, 25)
    assert log.text().splitlines()[0] == "[rank 1] … 15 earlier lines are not kept"


def test_a_line_without_end_is_cut() -> None:
    log = OutputLog()
    for _ in range(200):
        log.write(0, "stdout", "x" * 1000)
    assert len(shown(log)[0]) < 10_100
    assert shown(log)[0].endswith("(line cut)")


def test_empty_lines_are_kept_and_nothing_is_written_for_no_output() -> None:
    log = OutputLog()
    assert log.text() == ""
    log.write(0, "stdout", "\n\na\n")
    assert log.text() == "[rank 0]\n[rank 0]\n[rank 0] a\n"
    assert log.text(prefix=False) == "\n\na\n"


def test_a_reader_gives_each_line_once_and_an_open_one_when_it_closes() -> None:
    log = OutputLog()
    reader = OutputReader(log)
    log.write(1, "stdout", "b1\n")
    log.write(0, "stderr", "\r10%")
    log.write(0, "stdout", "a1\na2")
    assert labelled(reader.take(), fold=False) == ["[rank 0] a1", "[rank 1] b1"]
    assert reader.take() == {}
    log.write(0, "stderr", "\r99%\n")
    assert labelled(reader.take(), fold=False) == ["[rank 0] 99%"]
    assert labelled(reader.take(everything=True), fold=False) == ["[rank 0] a2"]
    assert reader.take(everything=True) == {}
