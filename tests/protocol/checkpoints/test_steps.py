"""The coordinator step by step: tables worked out by hand from section 1 of the reference.

See ``steps.py`` for the words.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from modules import load

steps = load("tests/protocol/checkpoints/steps.py")

PERIODIC = {"interval": 100, "first_delay": 100}
ENDURING = {"tolerable_failures": 99}


class Table(NamedTuple):
    name: str
    arguments: dict
    steps: list[tuple[str, str]]


TABLES = [
    Table("a checkpoint from trigger to notification", {}, [
        ("ask a 5", "started 1, trigger s 1"),
        ("counts", "1 0 1 0 0"),
        ("status 1", "in_progress -1 0/2"),
        ("ack 10 1 s", "success"),
        ("status 1", "in_progress 5 1/2"),
        ("pending", "1"),
        ("ack 30 1 t", "success, complete st 1 -1"),
        ("is a", "completed 1"),
        ("status 1", "completed 25 2/2"),
        ("pending", ""),
        ("retained", "1"),
        ("counts", "1 0 0 1 0"),
    ]),
    Table("end to end ends with the latest one, in whatever order they come", {}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ack 90 1 t", "success"),
        ("ack 40 1 s", "success, complete st 1 -1"),
        ("status 1", "completed 90 2/2"),
    ]),
    Table("ticks at the interval and its multiples", PERIODIC, [
        ("next", "100"),
        ("tick 99", ""),
        ("tick 100", "trigger s 1"),
        ("next", "200"),
        ("ack 110 1 s", "success"),
        ("ack 120 1 t", "success, complete st 1 -1"),
        ("tick 199", ""),
        ("tick 200", "trigger s 2"),
    ]),
    Table("a late look keeps to the fixed rate", PERIODIC, [
        ("tick 130", "trigger s 1"),
        ("next", "200"),
    ]),
    Table("ticks that were missed are one", PERIODIC, [
        ("tick 450", "trigger s 1"),
        ("queued", ""),
        ("next", "500"),
    ]),
    Table("without an interval nothing is due but what is pending", {"timeout": 50}, [
        ("next", "None"),
        ("ask a 10", "started 1, trigger s 1"),
        ("next", "60"),
    ]),
    Table("a pause longer than the interval is the period", PERIODIC | {"min_pause": 250}, [
        ("tick 100", "trigger s 1"),
        ("next", "350"),
    ]),
    Table("ticks queue at the limit, and start with a completion", PERIODIC, [
        ("tick 100", "trigger s 1"),
        ("tick 200", ""),
        ("tick 300", ""),
        ("queued", "tick tick"),
        ("ack 310 1 s", "success"),
        ("ack 320 1 t", "success, complete st 1 -1, trigger s 2"),
        ("queued", "tick"),
    ]),
    Table("two may be pending", PERIODIC | {"max_concurrent": 2}, [
        ("tick 100", "trigger s 1"),
        ("tick 200", "trigger s 2"),
        ("tick 300", ""),
        ("pending", "1 2"),
        ("queued", "tick"),
    ]),
    Table("too early: the tick moves to the end of the pause", PERIODIC | {"min_pause": 60}, [
        ("tick 100", "trigger s 1"),
        ("ack 110 1 s", "success"),
        ("ack 170 1 t", "success, complete st 1 -1"),
        ("tick 200", ""),
        ("next", "230"),
        ("tick 229", ""),
        ("tick 230", "trigger s 2"),
        ("next", "330"),
    ]),
    Table("the pause ends at its last moment", {"min_pause": 50}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ack 10 1 s", "success"),
        ("ack 10 1 t", "success, complete st 1 -1"),
        ("ask b 59", "refused MINIMUM_TIME_BETWEEN_CHECKPOINTS"),
        ("ask c 60", "started 2, trigger s 2"),
    ]),
    Table("a completion drops one early request, the others wait", PERIODIC | {"min_pause": 50}, [
        ("tick 100", "trigger s 1"),
        ("tick 200", ""),
        ("tick 300", ""),
        ("ack 310 1 s", "success"),
        ("ack 310 1 t", "success, complete st 1 -1"),
        ("queued", "tick"),
        ("next", "360"),
        ("tick 360", "trigger s 2"),
        ("queued", "tick"),
    ]),
    Table("a failure does not restart the pause", PERIODIC | {"min_pause": 60} | ENDURING, [
        ("tick 100", "trigger s 1"),
        ("decline 195 1 t", "abort st 1 -1"),
        ("tick 200", "trigger s 2"),
    ]),
    Table("users ignore the pause, but their completions begin one", {"min_pause": 50}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ack 10 1 s", "success"),
        ("ack 10 1 t", "success, complete st 1 -1"),
        ("ask b 20 checkpoint user", "started 2, trigger s 2"),
        ("ack 30 2 s", "success"),
        ("ack 30 2 t", "success, complete st 2 1"),
        ("ask c 31 savepoint", "started 3, trigger s 3"),
        ("ack 40 3 s", "success"),
        ("ack 40 3 t", "success"),
        ("ask d 89", "refused MINIMUM_TIME_BETWEEN_CHECKPOINTS"),
        ("ask e 90", "started 4, trigger s 4"),
    ]),
    Table("the queue: savepoint, forced, user's, older", {"unaligned": True}, [
        ("ask now 0", "started 1, trigger s 1"),
        ("ask old 1", "queued"),
        ("ask new 2", "queued"),
        ("ask user 3 checkpoint user", "queued"),
        ("ask save 4 savepoint", "queued"),
        ("ask stop 5 stop_savepoint", "queued"),
        ("queued", "save stop user old new"),
    ]),
    Table("requests of one moment keep their order", {}, [
        ("ask now 0", "started 1, trigger s 1"),
        ("ask a 1", "queued"),
        ("ask b 1", "queued"),
        ("ask c 1", "queued"),
        ("queued", "a b c"),
    ]),
    Table("an overflow throws the last one out", {"max_queued": 2}, [
        ("ask now 0", "started 1, trigger s 1"),
        ("ask a 1", "queued"),
        ("ask b 2", "queued"),
        ("ask c 3", "refused TOO_MANY_CHECKPOINT_REQUESTS"),
        ("ask user 4 checkpoint user", "queued"),
        ("is b", "refused TOO_MANY_CHECKPOINT_REQUESTS"),
        ("queued", "user a"),
        ("ask user2 5 checkpoint user", "queued"),
        ("queued", "user user2"),
    ]),
    Table("users' requests are never thrown out", {"max_queued": 1, "unaligned": True}, [
        ("ask now 0", "started 1, trigger s 1"),
        ("ask user 1 checkpoint user", "queued"),
        ("ask save 2 savepoint", "refused TOO_MANY_CHECKPOINT_REQUESTS"),
        ("queued", "user"),
    ]),
    Table("a savepoint is forced while unaligned is off", {}, [
        ("ask now 0", "started 1, trigger s 1"),
        ("ask user 1 checkpoint user", "queued"),
        ("ask save 2 savepoint", "started 2, trigger s 2"),
        ("ask stop 3 stop_savepoint", "started 3, trigger s 3"),
        ("pending", "1 2 3"),
        ("queued", "user"),
    ]),
    Table("above the limit nothing starts until it is free again", {}, [
        ("ask now 0", "started 1, trigger s 1"),
        ("ask save 1 savepoint", "started 2, trigger s 2"),
        ("ask a 2", "queued"),
        ("ack 5 2 s", "success"),
        ("ack 6 2 t", "success"),
        ("queued", "a"),
        ("ack 7 1 s", "success"),
        ("ack 8 1 t", "success, complete st 1 -1, trigger s 3"),
    ]),
    Table("a checkpoint expires at its timeout", {"timeout": 50} | ENDURING, [
        ("ask a 10", "started 1, trigger s 1"),
        ("ask b 20", "queued"),
        ("ack 30 1 s", "success"),
        ("tick 59", ""),
        ("tick 60", "abort st 1 -1, trigger s 2"),
        ("is a", "failed 1 CHECKPOINT_EXPIRED"),
        ("status 1", "expired 50 1/2"),
        ("next", "110"),
        ("counts", "2 0 1 0 1"),
    ]),
    Table("an expiry comes before a tick of its time", PERIODIC | {"timeout": 100} | ENDURING, [
        ("tick 100", "trigger s 1"),
        ("tick 200", "abort st 1 -1, trigger s 2"),
        ("queued", ""),
        ("next", "300"),
    ]),
    Table("an expiry makes room in the queue for a tick of its time",
          PERIODIC | {"timeout": 200, "max_queued": 1} | ENDURING, [
        ("tick 100", "trigger s 1"),
        ("tick 200", ""),
        ("tick 300", "abort st 1 -1, trigger s 2"),
        ("queued", "tick"),
    ]),
    Table("a late tick goes by what was due first", PERIODIC | {"timeout": 150} | ENDURING, [
        ("tick 100", "trigger s 1"),
        ("tick 260", "abort st 1 -1, trigger s 2"),
        ("queued", ""),
        ("next", "300"),
    ]),
    Table("two expire in the order of their triggers", {"timeout": 50} | ENDURING, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ask b 9 savepoint", "started 2, trigger s 2"),
        ("tick 59", "abort st 1 -1, abort st 2 -1"),
    ]),
    Table("acknowledged at the last moment is in time", {"timeout": 50}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ack 50 1 s", "success"),
        ("ack 50 1 t", "success, complete st 1 -1"),
        ("tick 50", ""),
    ]),
    Table("a decline is believed whoever sent it", ENDURING, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ask b 1", "queued"),
        ("decline 9 1 stranger CHECKPOINT_DECLINED_TASK_NOT_READY",
         "abort st 1 -1, trigger s 2"),
        ("is a", "failed 1 CHECKPOINT_DECLINED_TASK_NOT_READY"),
        ("status 1", "declined 9 0/2"),
        ("decline 10 1 t", ""),
        ("decline 11 7 t", ""),
        ("counts", "2 0 1 0 1"),
    ]),
    Table("an abort names the latest completed one", ENDURING, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ack 1 1 s", "success"),
        ("ack 2 1 t", "success, complete st 1 -1"),
        ("ask b 3", "started 2, trigger s 2"),
        ("decline 4 2 t", "abort st 2 1"),
    ]),
    Table("duplicates, strangers and late ones", {}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ack 1 1 s", "success"),
        ("ack 2 1 s", "duplicate"),
        ("ack 3 1 x", "unknown"),
        ("status 1", "in_progress 1 1/2"),
        ("ack 4 1 t", "success, complete st 1 -1"),
        ("ack 5 1 t", "discarded"),
        ("ack 6 1 x", "discarded"),
        ("ack 7 2 s", "discarded"),
        ("status 1", "completed 4 2/2"),
    ]),
    Table("a late acknowledgement enters the statistics, not the duration", ENDURING, [
        ("ask a 0", "started 1, trigger s 1"),
        ("decline 9 1 s", "abort st 1 -1"),
        ("ack 20 1 t", "discarded"),
        ("status 1", "declined 9 1/2"),
        ("ack 21 1 t", "discarded"),
        ("ack 22 1 x", "discarded"),
        ("status 1", "declined 9 1/2"),
    ]),
    Table("the store keeps one, the oldest is subsumed", {}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ack 1 1 s", "success"),
        ("ack 1 1 t", "success, complete st 1 -1"),
        ("ask b 2", "started 2, trigger s 2"),
        ("ack 3 2 s", "success"),
        ("ack 3 2 t", "success, complete st 2 1"),
        ("retained", "2"),
    ]),
    Table("a store of two", {"retained": 2}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ack 1 1 s", "success"),
        ("ack 1 1 t", "success, complete st 1 -1"),
        ("ask b 2", "started 2, trigger s 2"),
        ("ack 3 2 s", "success"),
        ("ack 3 2 t", "success, complete st 2 -1"),
        ("ask c 4", "started 3, trigger s 3"),
        ("ack 5 3 s", "success"),
        ("ack 5 3 t", "success, complete st 3 1"),
        ("retained", "2 3"),
    ]),
    Table("a newer one that completes drops older ones, not savepoints", {"max_concurrent": 3}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ask save 1 savepoint", "started 2, trigger s 2"),
        ("ask b 2", "started 3, trigger s 3"),
        ("ack 5 3 s", "success"),
        ("ack 6 3 t", "success, abort st 1 3, complete st 3 -1"),
        ("is a", "failed 1 CHECKPOINT_SUBSUMED"),
        ("status 1", "aborted 6 0/2"),
        ("pending", "2"),
        ("counts", "3 0 1 1 1"),
    ]),
    Table("a newer pending one survives an older's completion", {"max_concurrent": 2}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ask b 1", "started 2, trigger s 2"),
        ("ack 5 1 s", "success"),
        ("ack 6 1 t", "success, complete st 1 -1"),
        ("pending", "2"),
    ]),
    Table("a savepoint is neither stored nor notified and drops nothing", {"max_concurrent": 2}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ask save 1 savepoint", "started 2, trigger s 2"),
        ("ack 5 2 s", "success"),
        ("ack 6 2 t", "success"),
        ("is save", "completed 2"),
        ("retained", ""),
        ("pending", "1"),
    ]),
    Table("stop with savepoint is notified, drops older ones, is not stored", {}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ask stop 1 stop_savepoint", "started 2, trigger s 2"),
        ("ack 5 2 s", "success"),
        ("ack 6 2 t", "success, abort st 1 -1, complete st 2 -1"),
        ("retained", ""),
        ("is stop", "completed 2"),
    ]),
    Table("a declined stop with savepoint fails the job, whatever it endures", ENDURING, [
        ("ask stop 1 stop_savepoint", "started 1, trigger s 1"),
        ("decline 2 1 t CHECKPOINT_DECLINED_TASK_NOT_READY", "abort st 1 -1, fail_job"),
    ]),
    Table("an expired stop with savepoint fails the job", {"timeout": 10} | ENDURING, [
        ("ask stop 1 stop_savepoint", "started 1, trigger s 1"),
        ("tick 11", "abort st 1 -1, fail_job"),
    ]),
    Table("stop as Flink's scheduler does it: suspend, then ask", PERIODIC, [
        ("tick 100", "trigger s 1"),
        ("suspend 150", "abort st 1 -1"),
        ("ask stop 150 stop_savepoint", "started 2, trigger s 2"),
        ("next", "600150"),
        ("ack 160 2 s", "success"),
        ("ack 160 2 t", "success, complete st 2 -1"),
        ("finish 161 s", ""),
        ("finish 162 t", ""),
        ("next", "None"),
        ("counts", "2 0 0 1 1"),
    ]),
    Table("more failures in a row than are tolerable fail the job, and the count restarts",
          {"tolerable_failures": 1}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("decline 1 1 t", "abort st 1 -1"),
        ("ask b 2", "started 2, trigger s 2"),
        ("decline 3 2 t IO_EXCEPTION", "abort st 2 -1, fail_job"),
        ("ask c 4", "started 3, trigger s 3"),
        ("decline 5 3 t CHECKPOINT_ASYNC_EXCEPTION", "abort st 3 -1"),
        ("ask d 6", "started 4, trigger s 4"),
        ("tick 600006", "abort st 4 -1, fail_job"),
    ]),
    Table("a success forgets the failures before it", {"tolerable_failures": 1}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("decline 1 1 t", "abort st 1 -1"),
        ("ask b 2 savepoint", "started 2, trigger s 2"),
        ("ack 3 2 s", "success"),
        ("ack 3 2 t", "success"),
        ("ask c 4", "started 3, trigger s 3"),
        ("decline 5 3 t", "abort st 3 -1"),
    ]),
    Table("a failure below the last success does not count", {"max_concurrent": 2}, [
        ("ask save 0 savepoint", "started 1, trigger s 1"),
        ("ask b 1", "started 2, trigger s 2"),
        ("ack 3 2 s", "success"),
        ("ack 3 2 t", "success, complete st 2 -1"),
        ("decline 5 1 t", "abort st 1 2"),
    ]),
    Table("being subsumed does not count", {"max_concurrent": 2}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ask b 1", "started 2, trigger s 2"),
        ("ack 3 2 s", "success"),
        ("ack 3 2 t", "success, abort st 1 2, complete st 2 -1"),
    ]),
    Table("other declines do not count", {}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("decline 1 1 t CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER", "abort st 1 -1"),
    ]),
    Table("a savepoint's expiry does not count, its decline does", {"timeout": 10}, [
        ("ask a 0 savepoint", "started 1, trigger s 1"),
        ("tick 10", "abort st 1 -1"),
        ("ask b 20 savepoint", "started 2, trigger s 2"),
        ("decline 21 2 t", "abort st 2 -1, fail_job"),
    ]),
    Table("a task that finished counts as acknowledged and is not triggered", {}, [
        ("finish 0 s", ""),
        ("ask a 1", "started 1"),
        ("status 1", "in_progress -1 1/2"),
        ("ack 2 1 s", "unknown"),
        ("ack 3 1 t", "success, complete t 1 -1"),
        ("status 1", "completed 2 2/2"),
    ]),
    Table("a plan follows what has finished",
          {"triggered": lambda finished: ["t"] if "s" in finished else ["s"]}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ack 1 1 s", "success"),
        ("ack 1 1 t", "success, complete st 1 -1"),
        ("finish 2 s", ""),
        ("ask b 3", "started 2, trigger t 2"),
    ]),
    Table("the final checkpoint: triggered after the last record, completed before the end", {}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("next_id", "2"),  # the source has no more records: it waits for 2 or later
        ("ack 1 1 s", "success"),
        ("ack 2 1 t", "success, complete st 1 -1"),
        ("ask b 3", "started 2, trigger s 2"),
        ("ack 4 2 s", "success"),
        ("ack 5 2 t", "success, complete st 2 1"),
        ("finish 6 s", ""),
        ("finish 7 t", ""),
    ]),
    Table("what is pending still waits for a task that finishes", {"timeout": 50} | ENDURING, [
        ("ask a 0", "started 1, trigger s 1"),
        ("finish 1 s", ""),
        ("ack 2 1 t", "success"),
        ("pending", "1"),
        ("ack 3 1 s", "success, complete t 1 -1"),
    ]),
    Table("when all have finished nothing remains", PERIODIC, [
        ("tick 100", "trigger s 1"),
        ("tick 200", ""),
        ("finish 201 s", ""),
        ("finish 202 t", ""),
        ("status 1", "aborted 102 0/2"),
        ("queued", ""),
        ("next", "None"),
    ]),
    Table("without checkpoints after a task's end", {"checkpoints_after_tasks_finish": False}, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ack 1 1 s", "success"),
        ("ack 1 1 t", "success, complete st 1 -1"),
        ("finish 2 s", ""),
        ("ask b 3", "refused NOT_ALL_REQUIRED_TASKS_RUNNING"),
        ("ask c 4 savepoint", "refused NOT_ALL_REQUIRED_TASKS_RUNNING"),
        ("counts", "1 0 0 1 0"),
    ]),
    Table("a task fails: all is aborted, ticks stop, nothing starts", PERIODIC, [
        ("tick 100", "trigger s 1"),
        ("tick 200", ""),
        ("ask a 201", "queued"),
        ("fail 210 t", "abort s 1 -1"),
        ("is a", "refused CHECKPOINT_COORDINATOR_SUSPEND"),
        ("next", "None"),
        ("ask b 220", "refused NOT_ALL_REQUIRED_TASKS_RUNNING"),
        ("ask c 230 savepoint", "refused NOT_ALL_REQUIRED_TASKS_RUNNING"),
        ("counts", "1 0 0 0 1"),
    ]),
    Table("a failed task and what it had acknowledged", ENDURING, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ask b 1 savepoint", "started 2, trigger s 2"),
        ("ack 2 2 s", "success"),
        ("fail 3 s", "abort t 1 -1, abort t 2 -1"),
        ("is a", "failed 1 TASK_FAILURE"),
        ("is b", "failed 2 CHECKPOINT_COORDINATOR_SUSPEND"),
    ]),
    Table("a stop with savepoint that a failed task ends does not fail the job again", {}, [
        ("ask stop 1 stop_savepoint", "started 1, trigger s 1"),
        ("fail 3 s", "abort t 1 -1"),
    ]),
    Table("recovery names the checkpoint, and ticks start anew", PERIODIC, [
        ("tick 100", "trigger s 1"),
        ("ack 110 1 s", "success"),
        ("ack 110 1 t", "success, complete st 1 -1"),
        ("tick 200", "trigger s 2"),
        ("fail 250 s", "abort t 2 1"),
        ("ack 251 2 t", "discarded"),
        ("recover 420", "1"),
        ("next", "520"),
        ("tick 520", "trigger s 3"),
        ("counts", "3 1 1 1 1"),
    ]),
    Table("recovery without a checkpoint", PERIODIC, [
        ("fail 50 s", ""),
        ("recover 60", "-1"),
        ("next", "160"),
        ("counts", "0 0 0 0 0"),
    ]),
    Table("ticks wait until the whole job runs", PERIODIC, [
        ("fail 10 s", ""),
        ("fail 10 t", ""),
        ("recover 20 s", "-1"),
        ("next", "None"),
        ("ask a 25", "refused NOT_ALL_REQUIRED_TASKS_RUNNING"),
        ("recover 30 t", "-1"),
        ("next", "130"),
    ]),
    Table("a task that had finished runs again after a recovery", {}, [
        ("finish 1 s", ""),
        ("fail 2 t", ""),
        ("recover 3", "-1"),
        ("ask a 4", "started 1, trigger s 1"),
        ("status 1", "in_progress -1 0/2"),
    ]),
    Table("a region recovers alone, another's finished task stays finished", {}, [
        ("finish 1 s", ""),
        ("fail 2 t", ""),
        ("recover 3 t", "-1"),
        ("ask a 4", "started 1"),
        ("ack 5 1 t", "success, complete t 1 -1"),
    ]),
    Table("suspended: periodic requests are refused, a user's are not", PERIODIC, [
        ("suspend 10", ""),
        ("next", "None"),
        ("ask a 11", "refused PERIODIC_SCHEDULER_SHUTDOWN"),
        ("ask b 12 checkpoint user", "started 1, trigger s 1"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_steps(table):
    play = steps.Play(**table.arguments)
    for number, (line, expected) in enumerate(table.steps):
        assert play.step(line) == expected, f"step {number}: {line}"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_steps_when_the_coordinator_is_killed_between_any_two(table):
    """A request is another object then, so how it ended is left to the other test."""
    play = steps.Play(**table.arguments)
    for number, (line, expected) in enumerate(table.steps):
        if not line.startswith("is "):
            assert play.step(line) == expected, f"step {number}: {line}"
        play.kill()


def test_there_are_tables_enough():
    assert len({table.name for table in TABLES}) == len(TABLES) >= 50
