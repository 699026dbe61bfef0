"""How checkpoints end and what their job does: tables by hand, from section 1 of the reference.

See ``steps.py`` for the words.
"""

from __future__ import annotations

import pytest

from modules import load

steps = load("tests/protocol/checkpoints/steps.py")
Table, PERIODIC, ENDURING = steps.Table, steps.PERIODIC, steps.ENDURING

TABLES = [
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
    Table("a late acknowledgement does not count, and does not change the duration", ENDURING, [
        ("ask a 0", "started 1, trigger s 1"),
        ("decline 9 1 s", "abort st 1 -1"),
        ("ack 20 1 t", "discarded"),
        ("status 1", "declined 9 0/2"),
        ("ack 21 1 t", "discarded"),
        ("ack 22 1 x", "discarded"),
        ("status 1", "declined 9 0/2"),
    ]),
    Table("one in time counts, one as late as the decline does not", ENDURING, [
        ("ask a 0", "started 1, trigger s 1"),
        ("ack 9 1 s", "success"),
        ("decline 9 1 t", "abort st 1 -1"),
        ("ack 9 1 t", "discarded"),
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
    steps.check(table)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_steps_when_the_coordinator_is_killed_between_any_two(table):
    steps.check(table, is_killed=True)
