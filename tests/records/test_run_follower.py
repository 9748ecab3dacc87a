from gpulayer_nb.records.history import RunHistory
from gpulayer_nb.records.record import RankStatus, RunEnded, RunStarted, StepMetrics
from gpulayer_nb.records.run_folder import RunFolder
from gpulayer_nb.records.run_follower import RunFollower

STARTED = RunStarted(
    time=1.0, run_id="r", mode="train", num_nodes=1, devices=2, backend="gloo", accelerator="cpu", simulated=True
)  # fmt: skip


def step(number):
    return StepMetrics(time=2.0, steps=(number,), epochs=(0,), values={"loss": (1.0 / number,)})


def test_everything_is_read_once_whenever_one_comes(tmp_path):
    folder, history = RunFolder.create("r", tmp_path), RunHistory()
    follower = RunFollower(folder, history)
    assert not follower.read()
    folder.append(STARTED, step(1))
    assert follower.read()
    folder.append(step(2))
    follower.read()
    assert not follower.read()
    assert [row["global_step"] for row in history.rows()] == [1, 2]
    late = RunHistory()
    RunFollower(folder, late).read()
    assert late.rows() == history.rows()


def test_a_line_that_is_being_written_waits_until_it_is_whole(tmp_path):
    folder, history = RunFolder.create("r", tmp_path), RunHistory()
    folder.append(STARTED)
    follower = RunFollower(folder, history)
    follower.read()
    folder.append(step(1))
    whole = folder.records.read_bytes()
    folder.records.write_bytes(whole[:-20])
    follower.read()
    assert history.rows() == []
    folder.records.write_bytes(whole)
    follower.read()
    assert len(history.rows()) == 1


def test_logs_and_the_other_ranks_files_belong_to_it(tmp_path):
    folder, history = RunFolder.create("r", tmp_path), RunHistory()
    folder.append(STARTED)
    folder.log(1).write_bytes("zwölf".encode()[:3])
    follower = RunFollower(folder, history)
    follower.read()
    assert [line.text for line in history.output.lines(1)] == ["zw"]
    folder.log(1).write_bytes("zwölf\n".encode())
    other = RunFolder.create("other", tmp_path)
    other.append(RankStatus(time=3.0, rank=1, state="running", global_step=7))
    folder.rank_records(1).write_bytes(other.records.read_bytes())
    follower.read()
    assert [line.text for line in history.output.lines(1)] == ["zwölf"]
    assert history.rank_rows()[1].global_step == 7


def test_the_runs_end_comes_last_whatever_the_order_on_disk(tmp_path):
    folder, history = RunFolder.create("r", tmp_path), RunHistory()
    folder.append(STARTED, RunEnded(time=9.0, state="finished"), step(1))
    RunFollower(folder, history).read()
    assert history.state == "finished"
    assert len(history.rows()) == 1


def test_a_line_that_a_full_disk_has_cut_short_costs_nothing_but_itself(tmp_path):
    folder = RunFolder.create("cut", tmp_path)
    folder.append(STARTED)
    with folder.records.open("a") as file:
        file.write('{"run_id": "cut", "rank": 0, "seq": 0, "rec')
    folder.append(RunEnded(time=9.0, state="finished"))
    history = RunHistory()
    RunFollower(folder, history).read()
    assert history.state == "finished"
    assert [type(record).__name__ for record in folder.read_records()] == ["RunStarted", "RunEnded"]
