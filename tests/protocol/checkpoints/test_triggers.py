"""When checkpoints are triggered: tables by hand, from section 1 of the reference.

See ``steps.py`` for the words.
"""

from __future__ import annotations

import pytest

from modules import load

steps = load("tests/protocol/checkpoints/steps.py")
Table, PERIODIC, ENDURING = steps.Table, steps.PERIODIC, steps.ENDURING

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
]  # fmt: skip


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_steps(table):
    steps.check(table)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_steps_when_the_coordinator_is_killed_between_any_two(table):
    steps.check(table, is_killed=True)
