from gpulayer_nb.client.stop_ladder import ASK, ASK_SECONDS, CUT, CUT_SECONDS, KILL, StopLadder


def test_a_run_that_can_end_by_itself_is_asked_first():
    ladder = StopLadder()
    assert ladder.press(now=10.0, can_ask=True)
    assert ladder.stage == ASK


def test_a_cell_that_cannot_be_asked_is_cut_at_once():
    ladder = StopLadder()
    ladder.press(now=0.0, can_ask=False)
    assert ladder.stage == CUT


def test_a_second_press_goes_one_stage_further_at_once():
    ladder = StopLadder()
    stages = [ladder.press(now=0.1 * i, can_ask=True) and ladder.stage for i in range(4)]
    assert stages == [ASK, CUT, KILL, False]


def test_patience_runs_out_stage_by_stage():
    ladder = StopLadder()
    ladder.press(now=0.0, can_ask=True)
    assert not ladder.tick(ASK_SECONDS - 0.1)
    assert ladder.tick(ASK_SECONDS)
    assert ladder.stage == CUT
    assert not ladder.tick(ASK_SECONDS + CUT_SECONDS - 0.1)
    assert ladder.tick(ASK_SECONDS + CUT_SECONDS)
    assert ladder.stage == KILL
    assert not ladder.tick(1000.0)
