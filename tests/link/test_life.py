"""A link is moved, deleted, and loses a sender: also when that is killed at any step."""

from __future__ import annotations

import pytest

from flowcontrol.cli.main import main
from flowcontrol.errors import FencedError, LinkError, RemovedError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link import folder as fencing
from flowcontrol.link import sender as sender_module
from flowcontrol.link import settings as presence
from flowcontrol.link.link import Link, open_link
from flowcontrol.spark import crash_points


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Members that stopped a moment ago have stopped."""
    monkeypatch.setattr(fencing, "ACTIVE_S", 0.0)
    monkeypatch.setattr(presence, "EVERY_S", 0.0)


@pytest.fixture
def used(make, dry):
    """A link with rows that are read, and some that are not."""
    made = make()
    made.sender("a", dry.batches_of(6))
    made.receiver("main")
    for _ in range(9):
        for query in made.queries:
            query.advance()
    for _ in range(5):
        made.senders["a"].advance()
    assert made.senders["a"].done < 5
    return made


def stop(pipeline):
    for query in pipeline.queries:
        query.kill()


def settle_at(pipeline, folder):
    """Let the queries go on in another folder, with the checkpoints that they have."""
    pipeline.link = Link(folder)
    pipeline.storage = pipeline.link.storage
    for query in pipeline.receivers:
        query.options["path"] = str(folder)
    pipeline.drain()


def kill_at(monkeypatch, dry, step, count=1):
    """Kill a command at the n-th time that it has done a step."""
    left = [count]

    def reach(who, number, point):
        if (who, number, str(point)) == (*step, "step"):
            left[0] -= 1
            if left[0] == 0:
                raise dry.Crash(f"{step}")

    monkeypatch.setattr(crash_points, "hook", reach)


def test_queries_go_on_where_a_link_has_moved_to(used, tmp_path, verify):
    old = used.storage
    stop(used)
    there = used.link.move(tmp_path / "there")
    assert there.settings.link_id == used.settings.link_id
    settle_at(used, tmp_path / "there")
    assert used.receivers[0].rows.num_rows == 120
    verify.check_pipeline(used)
    with pytest.raises(LinkError, match=f"has moved to {tmp_path}/there: name that folder"):
        Link(str(old), channels=2)
    assert old.names() == ["link.json"]


STEPS = [("move", 0), ("move", 1), ("move", 2), ("move", 3), ("empty", 0), ("move", 4)]


REPEATED = [("move", 2), ("empty", 0)]
"""Steps that a command does once a file: killed at the fifth as well."""


@pytest.mark.parametrize(
    ("step", "count"), [*((step, 1) for step in STEPS), *((step, 5) for step in REPEATED)]
)
def test_a_move_that_is_killed_is_finished_by_the_same_command(
    used, tmp_path, dry, verify, monkeypatch, step, count
):
    """Never both, never none: where it was killed one of the two folders says what to do."""
    old, new = str(used.storage), str(tmp_path / "there")
    stop(used)
    kill_at(monkeypatch, dry, step, count)
    with pytest.raises(dry.Crash):
        used.link.move(new)
    monkeypatch.setattr(crash_points, "hook", None)
    with pytest.raises(LinkError, match=r"flowcontrol link move|has moved to"):
        used.senders["a"].advance()
    used.senders["a"].kill()
    try:
        open_link(new)
    except LinkError as error:
        assert "no link" in str(error)
    if step != ("move", 4) and step[0] != "empty":
        with pytest.raises(LinkError, match="is being moved to"):
            Link(old).move(str(tmp_path / "elsewhere"))
        assert main(["link", "move", old, new]) == 0
    monkeypatch.setattr(crash_points, "hook", used._reach)
    settle_at(used, new)
    assert used.receivers[0].rows.num_rows == 120
    verify.check_pipeline(used)
    assert main(["link", "delete", old]) == 0
    assert not Storage(old).names()


def test_a_member_that_still_runs_is_fenced_by_a_forced_move(used, tmp_path, verify):
    before = used.queries
    used.link.move(tmp_path / "there", force=True)
    for query in before:
        with pytest.raises((FencedError, LinkError)):
            for _ in range(5):
                query.advance()
    settle_at(used, tmp_path / "there")
    assert used.receivers[0].rows.num_rows == 120
    verify.check_pipeline(used)


def test_a_member_that_starts_while_its_link_is_moved_stops(used, tmp_path, monkeypatch, verify):
    """It has read the settings before, and claims its place behind the fence."""
    a = used.senders["a"]
    stop(used)
    fence = fencing.fence_members

    def then(storage):
        fence(storage)
        with pytest.raises(LinkError, match="is being moved"):
            a.open()

    monkeypatch.setattr("flowcontrol.link.folder.fence_members", then)
    used.link.move(tmp_path / "there")
    settle_at(used, tmp_path / "there")
    assert used.receivers[0].rows.num_rows == 120
    verify.check_pipeline(used)


def test_a_move_is_refused_while_members_run_or_onto_something(used, tmp_path, monkeypatch):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(LinkError, match=r"is not empty and holds no link: found notes\.txt"):
        used.link.move(tmp_path / "full")
    with pytest.raises(LinkError, match="the link's own folder"):
        used.link.move(f"{used.storage}/below")
    Link(tmp_path / "other", channels=2)
    with pytest.raises(LinkError, match="other: another link is there"):
        used.link.move(tmp_path / "other")
    monkeypatch.setattr(fencing, "ACTIVE_S", 1e6)
    with pytest.raises(LinkError, match=r"is not moved: sender a committed \d+ s ago; receiver"):
        used.link.move(tmp_path / "there")
    assert not (tmp_path / "there").exists()
    used.drain()


def test_a_link_that_is_deleted_leaves_nothing(used):
    with pytest.raises(LinkError, match=r"is not deleted: receiver main has \d+ rows of sender a"):
        used.link.delete()
    used.drain()
    used.link.delete()
    assert not (used.storage.exists(""))
    for query in used.queries:  # those that still run say so, and do not wait for ever
        with pytest.raises(LinkError, match="was deleted while this query ran"):
            query.advance()


def test_unread_rows_are_lost_only_when_that_is_said(used, capsys):
    path = str(used.storage)
    assert main(["link", "delete", path]) == 2
    assert "lose them with --force" in capsys.readouterr().err
    assert main(["link", "delete", path, "--force"]) == 0
    assert not used.storage.exists("")
    assert main(["link", "delete", path]) == 2


@pytest.mark.parametrize("step", [("delete", 0), ("delete", 1), ("empty", 0), ("delete", 2)])
def test_a_deletion_that_is_killed_is_finished_by_the_same_command(used, dry, monkeypatch, step):
    used.drain()
    stop(used)
    kill_at(monkeypatch, dry, step, 2 if step[0] == "empty" else 1)
    with pytest.raises(dry.Crash):
        used.link.delete()
    monkeypatch.setattr(crash_points, "hook", None)
    with pytest.raises(LinkError, match="is being deleted: finish"):
        open_link(str(used.storage))
    assert main(["link", "delete", str(used.storage)]) == 0
    assert not used.storage.exists("")


# ---------------------------------------------------------------------- a sender


@pytest.fixture
def two(make, dry):
    made = make()
    made.sender("a", dry.batches_of(4))
    made.sender("b", dry.batches_of(6, name="b"))
    made.receiver("main")
    return made


def test_a_sender_is_removed_when_its_rows_are_read(two, dry, verify):
    for _ in range(5):
        for query in two.queries:
            query.advance()
    with pytest.raises(LinkError, match=r"'a' is not removed: receiver main has \d+ rows"):
        two.link.remove_sender("a")
    with pytest.raises(LinkError, match="has no sender 'c': its senders are: a, b"):
        two.link.remove_sender("c")
    two.drain()
    a, files = two.senders["a"], two.storage.child("exchange/link_sender=0")
    before = len(files.files())
    assert two.link.remove_sender("a") > 0
    assert len(files.files()) < before
    with pytest.raises(FencedError, match="taken over"):
        a.batches += dry.batches_of(5, first=4)
        a.advance(), a.advance(), a.advance()
    a.kill()
    with pytest.raises(RemovedError, match="'a' was removed from the link"):
        a.open()
    a.batches.pop()
    a.planned = a.done
    two.senders.pop("a")
    two.senders["b"].batches += dry.batches_of(9, first=6, name="b")
    two.receivers[0].kill()  # and starts from what is left
    late = two.receiver("late")
    late.is_late = True
    two.drain()
    assert two.receivers[0].rows.num_rows == 80 + 180
    two.senders["a"] = a
    assert [one["name"] for one in two.link.describe()["senders"]] == ["b"]


def test_a_removed_sender_comes_back_with_a_reset(two, dry, verify):
    two.drain()
    two.link.remove_sender("a")
    a = two.senders["a"]
    a.kill()
    a.reset = True
    a.batches += dry.batches_of(6, first=4)
    two.drain()
    assert two.receivers[0].rows.num_rows == 240
    verify.check_pipeline(two)


@pytest.fixture
def reading(monkeypatch):
    """Return a function by which the receivers of a pipeline read while somebody waits for them."""

    def begin(pipeline):
        def read(_):
            for receiver in list(pipeline.receivers):
                receiver.advance()

        monkeypatch.setattr(sender_module.time, "sleep", read)

    return begin


def left(make, dry, point):
    """Return a link whose sender went away in mid-batch and does not come back."""
    made = make(exclusive_buffers=1, floating_buffers=0)
    made.sender("a", dry.batches_of(3, rows=40, size=200))
    made.receiver("main")
    while made.senders["a"].done < 0:
        for query in made.queries:
            query.advance()
    made.arm("a", point)
    while made.is_armed:
        for query in made.queries:
            query.advance()
    return made


@pytest.mark.parametrize("point", ["after exchange", "after ledger"])
def test_what_a_lost_sender_has_left_is_released_in_its_place(make, dry, verify, reading, point):
    made = left(make, dry, point)
    with pytest.raises(LinkError, match=r"'a' is not removed: .*--finish \(finish=True\)"):
        while made.receivers[0].advance():  # all that is released
            pass
        made.link.remove_sender("a")
    reading(made)
    assert made.link.remove_sender("a", finish=True) > 0
    a = made.senders.pop("a")
    assert made.link.describe()["senders"] == []
    # Its query comes back after all: its batch is in the link, and not written again.
    a.reset = True
    made.senders["a"] = a
    made.drain()
    assert made.receivers[0].rows.num_rows == 120
    verify.check_pipeline(made)


def test_a_sender_whose_query_starts_meanwhile_is_left_to_it(make, dry, verify, monkeypatch):
    made = left(make, dry, "after ledger")
    opened = []

    def start(_):
        opened or opened.append(made.senders["a"].open())

    monkeypatch.setattr(sender_module.time, "sleep", start)
    with pytest.raises(LinkError, match="'a' is not finished: its query was started again"):
        made.link.remove_sender("a", finish=True)
    made.drain()
    assert made.receivers[0].rows.num_rows == 120
    verify.check_pipeline(made)


def test_a_sender_that_nobody_reads_is_not_finished(make, dry):
    made = make()
    made.sender("a", dry.batches_of(1)).open()
    stop(made)
    with pytest.raises(LinkError, match="has no receivers, so nobody reads what it has left"):
        made.link.remove_sender("a", finish=True)


def test_the_command_finishes_a_sender_and_goes_on_after_ctrl_c(
    make, dry, reading, monkeypatch, capsys
):
    made = left(make, dry, "after exchange")
    command = ["link", "remove-sender", str(made.storage), "a", "--finish"]

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sender_module.time, "sleep", interrupt)
    assert main(command) == 130
    assert "run the same command again" in capsys.readouterr().err
    reading(made)
    assert main(command) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == "releasing what sender a has left, as its receivers read it"
    assert last.startswith("sender a is removed: ")


# ---------------------------------------------------------------------- no hard links


def test_a_link_works_on_a_mount_without_hard_links(make, dry, verify, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    pipeline = make()
    pipeline.sender("a", dry.batches_of(6))
    pipeline.receiver("main")
    for who, point in (("a", "after exchange"), ("main", "before ledger"), ("a", "before ledger")):
        pipeline.arm(who, point)
        pipeline.drain()
        assert not pipeline.is_armed
        pipeline.senders["a"].batches += dry.batches_of(
            len(pipeline.senders["a"].batches) + 1, first=len(pipeline.senders["a"].batches)
        )
    pipeline.drain()
    assert pipeline.receivers[0].rows.num_rows == 180
    verify.check_pipeline(pipeline)
