"""Step tables of windows that follow event time, worked out by hand from the reference's rules.

A step is a call, and behind ``->`` the results that it causes, in order. ``a12`` is an
element of key a with timestamp 12 and value 1, ``a12 5`` one with value 5, ``w19`` a watermark,
``t20`` a tick, ``restore`` goes on from a snapshot. ``@`` sets the processing time. ``a=6 [0,10)``
is a result of key a from the window that begins at 0 and ends at 10; its timestamp is 9. ``min``
and ``max`` are the ends of time. ``| name value`` looks at an attribute after the step, ``| timers
0 10: 9`` at the timers of a window. A table is a name, the operator's arguments, and its steps.
"""

from __future__ import annotations

from typing import Any

Table = tuple[str, dict[str, Any], str]

TUMBLING = ("tumbling", 10, 0)
SLIDING = ("sliding", 10, 5, 0)
SESSION = ("session", 10)

ASSIGNERS: list[Table] = [
    ("tumbling: an element is in one window, whose end is not in it", {"assigner": TUMBLING},
     "a0; a9; a10; w8 ->; w9 -> a=2 [0,10); w18 ->; w19 -> a=1 [10,20); w20 ->"),
    ("tumbling: an offset moves the starts", {"assigner": ("tumbling", 10, 3)},
     "a2; a3; w2 -> a=1 [-7,3); w12 -> a=1 [3,13)"),
    ("tumbling: an offset below 0 moves them the other way", {"assigner": ("tumbling", 10, -3)},
     "a6; a7; w6 -> a=1 [-3,7); w16 -> a=1 [7,17)"),
    ("tumbling: a remainder is at least 0 before time 0 too", {"assigner": TUMBLING},
     "a-1; a-10; a-11; w-11 -> a=1 [-20,-10); w-1 -> a=2 [-10,0)"),
    ("tumbling: a size of 1 has a window per millisecond", {"assigner": ("tumbling", 1, 0)},
     "a5; a6; w5 -> a=1 [5,6); w6 -> a=1 [6,7)"),
    ("tumbling: keys have windows of their own", {"assigner": TUMBLING},
     "b4 10; a5 1; b6 5; w9 -> b=15 [0,10), a=1 [0,10)"),
    ("tumbling: windows that one watermark passes fire in the order of time",
     {"assigner": TUMBLING},
     "a25; b5; a15; a5; w100 -> b=1 [0,10), a=1 [0,10), a=1 [10,20), a=1 [20,30)"),
    ("sliding: an element is in size / slide windows", {"assigner": SLIDING},
     "a7 3; w9 -> a=3 [0,10); w14 -> a=3 [5,15); w1000 ->"),
    ("sliding: an element on a start is not in the window that ends there", {"assigner": SLIDING},
     "a10; w14 -> a=1 [5,15); w19 -> a=1 [10,20); w1000 ->"),
    ("sliding: a size that is not a multiple of the slide", {"assigner": ("sliding", 10, 4, 0)},
     "a9; a8; w9 -> a=2 [0,10); w13 -> a=2 [4,14); w17 -> a=2 [8,18); a11 -> | dropped 1"),
    ("sliding: an offset", {"assigner": ("sliding", 10, 5, 2)},
     "a7; w6 ->; w11 -> a=1 [2,12); w16 -> a=1 [7,17)"),
    ("sliding: a slide above the size leaves elements in no window, which are not late",
     {"assigner": ("sliding", 5, 10, 0)},
     "a4; a5; a9; w4 -> a=1 [0,5); w9 -> | dropped 0; a7 -> | dropped 1"),
    ("session: elements within the gap are one window", {"assigner": SESSION},
     "a0; a9; a15; w24 -> a=3 [0,25)"),
    ("session: windows that touch are one", {"assigner": SESSION},
     "a0; a10; w9 ->; w19 -> a=2 [0,20)"),
    ("session: a gap and a millisecond is another one", {"assigner": SESSION},
     "a0; a11; w9 -> a=1 [0,10); w20 -> a=1 [11,21)"),
    (
        "session: an element between two joins them",
        {"assigner": SESSION},
        """
        a0 1; a20 2; a10 4 -> | timers 0 30: 29 | timers 0 10: | timers 20 30:; w19 ->
        w29 -> a=7 [0,30)
        """,
    ),
    ("session: keys do not join", {"assigner": SESSION},
     "a0; b5; w9 -> a=1 [0,10); w14 -> b=1 [5,15)"),
    ("session: what merged keeps the place of the oldest", {"assigner": SESSION},
     "a20; b20; a12; b12; w100 -> a=2 [12,30), b=2 [12,30)"),
    (
        "session: what joins two is where the older one was, whose timers go",
        {"assigner": SESSION},
        """
        a0; b20; a20; a10 -> | timers 0 30: 29 | timers 20 30: 29; b10
        w100 -> a=3 [0,30), b=2 [10,30)
        """,
    ),
    (
        "session: those of a key end in another order than they began",
        {"assigner": SESSION},
        """
        a40; a0; a20; w9 -> a=1 [0,10); a45 -> | timers 40 55: 54; w29 -> a=1 [20,30); a47
        w100 -> a=3 [40,57)
        """,
    ),
    ("session: of equal times the one that began first fires first", {"assigner": SESSION},
     "b5; a5; c5; a4; w100 -> b=1 [5,15), a=2 [4,15), c=1 [5,15)"),
    ("session: a gap of each element", {"assigner": ("session", lambda key, value: value)},
     "a0 5; a4 20; a23 1; w22 ->; w23 -> a=26 [0,24)"),
    ("session: a gap of 0 is a point, which touches",
     {"assigner": ("session", lambda key, value: value)},
     "a5 0; a9 0; w3 ->; w4 -> a=0 [5,5); a8 1 -> | timers 8 9: 8; w8 -> a=1 [8,9)"),
    ("global: one window of all times fires at the end of time", {"assigner": ("global",)},
     "a5; a-500; w1000000 -> | timers min max: max; a7; wmax -> a=3 [min,max)"),
    ("global: nothing is late", {"assigner": ("global",), "trigger": ("count", 2)},
     "w1000; a5 -> | dropped 0; a1 -> a=2 [min,max)"),
]  # fmt: skip

LATENESS: list[Table] = [
    (
        "an element of a window that fired is late",
        {"assigner": TUMBLING},
        """
        a5; w9 -> a=1 [0,10); a5 -> | dropped 1 | late [('a', 1, 5)]; a9 -> | dropped 2
        a10 -> | dropped 2
        """,
    ),
    ("a watermark before the end makes nothing late", {"assigner": TUMBLING},
     "w8; a0 -> | dropped 0; w9 -> a=1 [0,10); a0 -> | dropped 1"),
    (
        "within the lateness each element fires, with what was there",
        {"assigner": TUMBLING, "lateness": 5},
        """
        a5 1; w9 -> a=1 [0,10) | timers 0 10: 14; a6 2 -> a=3 [0,10); a7 4 -> a=7 [0,10)
        w13 ->; a8 8 -> a=15 [0,10); w14 -> | state_bytes 0 | timers 0 10:
        a9 -> | dropped 1
        """,
    ),
    ("within the lateness a purged window fires with what is new",
     {"assigner": TUMBLING, "lateness": 5, "purging": True},
     "a5 1; w9 -> a=1 [0,10); a6 2 -> a=2 [0,10); a7 4 -> a=4 [0,10); w14 -> | state_bytes 0"),
    ("the lateness begins at the last millisecond", {"assigner": TUMBLING, "lateness": 1},
     "a5; w9 -> a=1 [0,10); a5 -> a=2 [0,10); w10 ->; a5 -> | dropped 1"),
    ("a window that nothing was in begins within the lateness and fires at once",
     {"assigner": TUMBLING, "lateness": 5},
     "w12; a5 -> a=1 [0,10) | timers 0 10: 14; w14 -> | state_bytes 0"),
    ("a watermark that jumps over end and clean-up fires once",
     {"assigner": TUMBLING, "lateness": 5},
     "a5 -> | timers 0 10: 9 14; w100 -> a=1 [0,10) | state_bytes 0; a5 -> | dropped 1"),
    ("a watermark that does not grow fires nothing", {"assigner": TUMBLING},
     "a5; w9 -> a=1 [0,10); w9 ->; w3 ->; a5 -> | dropped 1"),
    (
        "of sliding windows the late ones are left out",
        {"assigner": SLIDING},
        """
        w9; a7 -> | dropped 0 | timers 0 10: | timers 5 15: 14; w14 -> a=1 [5,15)
        a7 -> | dropped 1
        """,
    ),
    (
        "of sliding windows those within the lateness fire at once, the last one first",
        {"assigner": SLIDING, "lateness": 10},
        """
        a7 1; w14 -> a=1 [0,10), a=1 [5,15); a8 2 -> a=3 [5,15), a=3 [0,10); w19 ->
        a8 4 -> a=7 [5,15); w24 -> | state_bytes 0
        """,
    ),
    ("of sliding windows one fires at once and one waits", {"assigner": SLIDING, "lateness": 10},
     "w9; a7 -> a=1 [0,10); w14 -> a=1 [5,15)"),
    ("a session that a late element joins accepts it", {"assigner": SESSION},
     "a20; w19; a10 -> | dropped 0 | timers 10 30: 29; a5 -> | dropped 0; w29 -> a=3 [5,30)"),
    ("a session of its own that has ended is late", {"assigner": SESSION},
     "a20; w19; a9 -> | dropped 1; a9 -> | dropped 2; w29 -> a=1 [20,30); a20 -> | dropped 3"),
    (
        "a session is kept for the lateness, and fires at once while it ends before the watermark",
        {"assigner": SESSION, "lateness": 10},
        """
        a0 1; w9 -> a=1 [0,10); a3 2 -> | timers 0 13: 12 22; w12 -> a=3 [0,13)
        a2 4 -> a=7 [0,13); a12 8 -> | timers 0 22: 21 31; w21 -> a=15 [0,22)
        w31 -> | state_bytes 0
        """,
    ),
    ("a purged session merges with what came since",
     {"assigner": SESSION, "lateness": 20, "purging": True},
     "a0 1; w9 -> a=1 [0,10); a5 2; w14 -> a=2 [0,15); a4 4 -> a=4 [0,15)"),
    (
        "a lateness beyond the end of time keeps windows for ever",
        {"assigner": TUMBLING, "lateness": (1 << 63) - 1},
        """
        a5 -> | timers 0 10: 9; w9 -> a=1 [0,10) | timers 0 10: | state_bytes 32
        w1000000000; a5 -> a=2 [0,10)
        """,
    ),
    ("the end of time fires all", {"assigner": TUMBLING, "lateness": 5},
     "a5; a25; wmax -> a=1 [0,10), a=1 [20,30) | state_bytes 0; a30 -> | dropped 1"),
    ("windows at the end of time", {"assigner": TUMBLING},
     "amax; wmax -> a=1 [9223372036854775800,max) | state_bytes 0; amax -> | dropped 1"),
    (
        "windows at the beginning of time",
        {"assigner": TUMBLING},
        """
        amin; a-9223372036854775801
        w-9223372036854775799 -> a=2 [min,-9223372036854775798); amin -> | dropped 1
        """,
    ),
    (
        "a snapshot has windows, watermark and what was late",
        {"assigner": TUMBLING, "lateness": 5},
        """
        a5 1; w9 -> a=1 [0,10); restore -> | timers 0 10: 14; a6 2 -> a=3 [0,10)
        w14 -> | state_bytes 0; a5 -> | dropped 1
        restore -> | dropped 1 | late [('a', 1, 5)]; a15 4; restore; b16 8
        w19 -> a=4 [10,20), b=8 [10,20)
        """,
    ),
]  # fmt: skip

TABLES = [*ASSIGNERS, *LATENESS]
