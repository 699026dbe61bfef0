"""Step tables of triggers and of processing time, worked out by hand; the form is that of tables.

``continuous`` of Flink rounds towards 0: the first multiple above -7 is not 0 but the interval.
"""

from __future__ import annotations

from typing import Any

Table = tuple[str, dict[str, Any], str]

TUMBLING = ("tumbling", 10, 0)
SLIDING = ("sliding", 10, 5, 0)
SESSION = ("session", 10)
CLOCKED = {"trigger": ("processing",), "time": "processing"}

COUNTS: list[Table] = [
    (
        "count: fires with the n-th, with all there is, and begins again",
        {"assigner": ("global",), "trigger": ("count", 2)},
        """
        a1 1; b1 10; a2 2 -> a=3 [min,max); a3 4; b2 20 -> b=30 [min,max)
        a4 8 -> a=15 [min,max); wmax ->
        """,
    ),
    (
        "count: purging keeps nothing",
        {"assigner": ("global",), "trigger": ("count", 2), "purging": True},
        """
        a1 1 -> | state_bytes 32; a2 2 -> a=3 [min,max) | state_bytes 0; a3 4
        a4 8 -> a=12 [min,max)
        """,
    ),
    ("count: of 1 fires with each", {"assigner": ("global",), "trigger": ("count", 1)},
     "a1 1 -> a=1 [min,max); a1 2 -> a=3 [min,max)"),
    (
        "count: a window that ends does not fire",
        {"assigner": TUMBLING, "trigger": ("count", 2)},
        """
        a1 -> | timers 0 10: 9; w9 -> | state_bytes 0; a11; a12 -> a=2 [10,20)
        a1 -> | dropped 1
        """,
    ),
    ("count: is of a window", {"assigner": SLIDING, "trigger": ("count", 2)},
     "a7; a2 -> a=2 [0,10); a8 -> a=2 [5,15); a9 -> a=4 [0,10)"),
    ("count: one element may fire several windows, the last one first",
     {"assigner": SLIDING, "trigger": ("count", 2)}, "a7; a8 -> a=2 [5,15), a=2 [0,10)"),
    ("count: of merged windows adds", {"assigner": SESSION, "trigger": ("count", 3)},
     "a0; a20; a10 -> a=3 [0,30); a11; a12; a13 -> a=6 [0,30)"),
    ("count: of merged windows may be above n; the next element fires once",
     {"assigner": SESSION, "trigger": ("count", 3)},
     "a0; a1; a20; a21; a11 -> a=5 [0,31); a12; a13; a14 -> a=8 [0,31)"),
    ("count: goes on in a purged window",
     {"assigner": TUMBLING, "trigger": ("count", 2), "purging": True},
     "a1; a2 -> a=2 [0,10); a3; w9 ->; a12; a13 -> a=2 [10,20)"),
    ("count: a snapshot has it", {"assigner": TUMBLING, "trigger": ("count", 3)},
     "a1; a2; restore; a3 -> a=3 [0,10); restore; a4; a5; a6 -> a=6 [0,10)"),
]  # fmt: skip

CONTINUOUS: list[Table] = [
    (
        "continuous: fires at multiples of the interval, and at the end",
        {"assigner": ("tumbling", 30, 0), "trigger": ("continuous", 10)},
        """
        a4 1 -> | timers 0 30: 10 29; w9 ->; w10 -> a=1 [0,30) | timers 0 30: 20 29; a12 2
        w20 -> a=3 [0,30); w28 ->; w29 -> a=3 [0,30) | state_bytes 0
        """,
    ),
    ("continuous: the first multiple is that behind the first element",
     {"assigner": ("tumbling", 30, 0), "trigger": ("continuous", 10)},
     "a14 -> | timers 0 30: 20 29; a4 -> | timers 0 30: 20 29; w10 ->; w20 -> a=2 [0,30)"),
    (
        "continuous: an element on a multiple waits for the next one",
        {"assigner": ("tumbling", 30, 0), "trigger": ("continuous", 10)},
        "a10 -> | timers 0 30: 20 29; w10 ->; w20 -> a=1 [0,30)",
    ),
    ("continuous: the end comes before a multiple behind it",
     {"assigner": ("tumbling", 15, 0), "trigger": ("continuous", 10)},
     "a12 -> | timers 0 15: 14; w14 -> a=1 [0,15); a16 -> | timers 15 30: 20 29"),
    ("continuous: a watermark that passes several multiples fires at each",
     {"assigner": ("tumbling", 30, 0), "trigger": ("continuous", 10)},
     "a4; w25 -> a=1 [0,30), a=1 [0,30); w100 -> a=1 [0,30)"),
    ("continuous: a multiple that the watermark has passed fires with the next one",
     {"assigner": ("tumbling", 30, 0), "trigger": ("continuous", 10)},
     "w15; a4 -> | timers 0 30: 10 29; w16 -> a=1 [0,30) | timers 0 30: 20 29"),
    ("continuous: within the lateness each element fires",
     {"assigner": TUMBLING, "trigger": ("continuous", 5), "lateness": 10},
     "a3 1; w5 -> a=1 [0,10); w9 -> a=1 [0,10); a4 2 -> a=3 [0,10); w19 -> | state_bytes 0"),
    ("continuous: purging gives what is new, and nothing if nothing is",
     {"assigner": ("tumbling", 30, 0), "trigger": ("continuous", 10), "purging": True},
     "a4 1; w10 -> a=1 [0,30); w20 ->; a21 2; w29 -> a=2 [0,30)"),
    (
        "continuous: of merged sessions the earliest counts",
        {"assigner": ("session", 20), "trigger": ("continuous", 10)},
        """
        a31 1 -> | timers 31 51: 40 50; a2 2 -> | timers 2 22: 10 21
        a15 4 -> | timers 2 51: 10 50; w10 -> a=7 [2,51); w20 -> a=7 [2,51)
        """,
    ),
    ("continuous: before time 0 the first multiple is the one towards 0 and an interval",
     {"assigner": ("tumbling", 40, -20), "trigger": ("continuous", 10)},
     "a-7 -> | timers -20 20: 10 19; w0 ->; w10 -> a=1 [-20,20); w19 -> a=1 [-20,20)"),
    (
        "continuous: a global window fires once more at the end of time",
        {"assigner": ("global",), "trigger": ("continuous", 10)},
        """
        a4 -> | timers min max: 10 max; w10 -> a=1 [min,max)
        wmax -> a=1 [min,max), a=1 [min,max)
        """,
    ),
    ("continuous: a snapshot has it",
     {"assigner": ("tumbling", 30, 0), "trigger": ("continuous", 10)},
     "a4; w10 -> a=1 [0,30); restore -> | timers 0 30: 20 29; w20 -> a=1 [0,30)"),
]  # fmt: skip

CLOCKS: list[Table] = [
    (
        "clock: windows are those of the clock, whatever the timestamp",
        {"assigner": TUMBLING, **CLOCKED},
        """
        @3 a999 -> | timers 0 10: 9; @12 a0; w1000 ->; t8 ->; t9 -> a=1 [0,10)
        t19 -> a=1 [10,20) | dropped 0
        """,
    ),
    ("clock: no lateness", {"assigner": TUMBLING, "lateness": 50, **CLOCKED},
     "@3 a3 -> | timers 0 10: 9; t9 -> a=1 [0,10) | state_bytes 0"),
    ("clock: sliding windows", {"assigner": SLIDING, **CLOCKED},
     "@7 a0; t9 -> a=1 [0,10); @11 b0; t14 -> a=1 [5,15), b=1 [5,15); t19 -> b=1 [10,20)"),
    (
        "clock: sessions",
        {"assigner": SESSION, **CLOCKED},
        """
        @0 a0 -> | timers 0 10: 9; @5 a0 -> | timers 0 15: 14 | timers 0 10:; t9 ->
        t14 -> a=2 [0,15); @15 a0; t24 -> a=1 [15,25)
        """,
    ),
    ("clock: a clock that does not grow fires nothing", {"assigner": TUMBLING, **CLOCKED},
     "@3 a0; t9 -> a=1 [0,10); t9 ->; t3 ->"),
    (
        "clock: continuous follows it",
        {"assigner": ("tumbling", 30, 0), "trigger": ("continuous", 10), "time": "processing"},
        """
        @4 a0 1 -> | timers 0 30: 10 29; t10 -> a=1 [0,30); @12 a0 2; t25 -> a=3 [0,30)
        t29 -> a=3 [0,30) | state_bytes 0
        """,
    ),
    (
        "clock: continuous of merged sessions fires at the earliest",
        {"assigner": ("session", 20), "trigger": ("continuous", 10), "time": "processing"},
        """
        @4 a0 -> | timers 4 24: 10 23; @9 a0 -> | timers 4 29: 10 28; t10 -> a=2 [4,29)
        t20 -> a=2 [4,29); t28 -> a=2 [4,29) | state_bytes 0
        """,
    ),
    ("clock: count fires in windows of it",
     {"assigner": TUMBLING, "trigger": ("count", 2), "time": "processing"},
     "@1 a0; @2 a0 -> a=2 [0,10); @3 a0; t9 -> | state_bytes 0"),
    (
        "clock: of windows of event time, which the watermark removes",
        {"assigner": TUMBLING, "trigger": ("processing",)},
        """
        @1 a5 -> | timers 0 10: 9; t9 -> a=1 [0,10) | timers 0 10: 9
        w9 -> | state_bytes 0; @9 a15; w19 -> | state_bytes 0; t30 ->
        """,
    ),
    ("event: windows of the clock that the watermark fires, and the clock removes",
     {"assigner": TUMBLING, "time": "processing"},
     "@1 a0; w9 -> a=1 [0,10); @2 a0 -> a=2 [0,10); t9 -> | state_bytes 0"),
    ("never", {"assigner": TUMBLING, "trigger": ("never",)},
     "a1 -> | timers 0 10: 9; w9 -> | state_bytes 0; wmax ->"),
    ("end of stream", {"assigner": ("global",), "trigger": ("end_of_stream",)},
     "a1 4; w100 ->; a2 8; wmax -> a=12 [min,max)"),
]  # fmt: skip

TIMEOUTS: list[Table] = [
    (
        "timeout: fires what has waited since the first element",
        {"assigner": ("global",), "trigger": ("timeout", ("count", 3), 100, False, True)},
        """
        @0 a0 1 -> | timers min max: 100; @50 a0 2 -> | timers min max: 100; t99 ->
        t100 -> a=3 [min,max) | timers min max:; @120 a0 4 -> | timers min max: 220
        """,
    ),
    (
        "timeout: a window that fires has none",
        {"assigner": ("global",), "trigger": ("timeout", ("count", 2), 100, False, True)},
        """
        @0 a0 1; @50 a0 2 -> a=3 [min,max) | timers min max:; t200 ->
        @210 a0 4 -> | timers min max: 310; t310 -> a=7 [min,max)
        """,
    ),
    ("timeout: each element begins it anew",
     {"assigner": ("global",), "trigger": ("timeout", ("count", 9), 100, True, True)},
     "@0 a0; @50 a0 -> | timers min max: 150; t100 ->; t150 -> a=2 [min,max)"),
    ("timeout: it clears the count",
     {"assigner": ("global",), "trigger": ("timeout", ("count", 2), 100, False, True)},
     "@0 a0; t100 -> a=1 [min,max); @110 a0; @120 a0 -> a=3 [min,max)"),
    (
        "timeout: without clearing the count stays, and no other timeout begins",
        {"assigner": ("global",), "trigger": ("timeout", ("count", 3), 100, False, False)},
        """
        @0 a0; t100 -> a=1 [min,max); @110 a0 -> | timers min max:
        @120 a0 -> a=3 [min,max); @130 a0 -> | timers min max: 230
        """,
    ),
    ("timeout: purging",
     {"assigner": ("global",), "trigger": ("timeout", ("count", 3), 100, False, True),
      "purging": True},
     "@0 a0 1; t100 -> a=1 [min,max) | state_bytes 0; @110 a0 2; t210 -> a=2 [min,max)"),
    (
        "timeout: the rest of a window fires when it is removed",
        {"assigner": TUMBLING, "trigger": ("timeout", ("count", 2), 100)},
        """
        @0 a1 1; @1 a2 2 -> a=3 [0,10); @2 a3 4 -> | timers 0 10: 9 102
        w9 -> a=7 [0,10) | state_bytes 0; t102 ->
        """,
    ),
    ("timeout: a trigger that it cleared does not fire, and the window goes in silence",
     {"assigner": TUMBLING, "trigger": ("timeout", ("event",), 100)},
     "@0 a1 -> | timers 0 10: 9 100; t100 -> a=1 [0,10) | timers 0 10:; w9 -> | state_bytes 0"),
    (
        "timeout: an element behind it begins all again",
        {"assigner": TUMBLING, "trigger": ("timeout", ("event",), 100)},
        """
        @0 a1; t100 -> a=1 [0,10); @101 a2 -> | timers 0 10: 9 201
        w9 -> a=2 [0,10) | state_bytes 0
        """,
    ),
    (
        "timeout: of a continuous trigger",
        {"assigner": ("tumbling", 30, 0), "trigger": ("timeout", ("continuous", 10), 7)},
        """
        @0 a4 -> | timers 0 30: 7 10 29; t7 -> a=1 [0,30) | timers 0 30: 29; w10 ->
        w29 -> a=1 [0,30) | state_bytes 0
        """,
    ),
]  # fmt: skip

TABLES = [*COUNTS, *CONTINUOUS, *CLOCKS, *TIMEOUTS]
