"""Step tables of a task's valve, worked out by hand from section 14 of the reference's network.

A step is a call, and behind ``->`` what it gives out, in order. ``w0 10`` is a watermark of
10 on channel 0, ``i0`` its status IDLE, ``a0`` ACTIVE; ``min`` and ``max`` are the ends of time.
``| name value`` looks at an attribute after the step.
"""

LEAST_OF_ALL = {
    "nothing before every channel has a watermark": ("valve 3",
     "w0 10 -> | last min; w1 20 ->; w2 30 -> 10 | last 10"),
    "one channel: what comes goes on": ("valve 1", "w0 10 -> 10; w0 11 -> 11; w0 max -> max"),
    "the least of the channels, each time the last one moves": ("valve 2",
     "w0 10 ->; w1 7 -> 7; w1 9 -> 9; w1 15 -> 10; w1 20 ->; w0 18 -> 18"),
    "a watermark that is not later than the channel's is ignored": ("valve 2",
     "w0 10 ->; w1 10 -> 10; w0 9 -> | last 10; w0 10 ->; w1 12 ->; w1 11 ->; w0 13 -> 12"),
    "a watermark of MIN is not later than the start": ("valve 1", "w0 min -> | last min"),
    "two channels at the least: both must move": ("valve 3",
     "w0 5 ->; w1 5 ->; w2 8 -> 5; w0 9 ->; w1 7 -> 7; w1 20 -> 8; w2 20 -> 9"),
    "the end of time comes when all channels have it": ("valve 2",
     "w0 max ->; w1 5 -> 5; w1 max -> max; w0 max ->"),
}  # fmt: skip

IDLE_CHANNELS = {
    "a channel that held the others back turns idle": ("valve 3",
     "w0 10 ->; w1 20 ->; i2 -> 10 | aligned (0, 1) | is_idle False"),
    "a channel ahead of the others turns idle": ("valve 2",
     "w0 10 ->; w1 20 -> 10; i1 -> | last 10; w0 30 -> 30"),
    "one of two that held the others back turns idle": ("valve 3",
     "w0 5 ->; w1 5 ->; w2 9 -> 5; i0 ->; i1 -> 9"),
    "an idle channel's watermark is ignored": ("valve 2",
     "w1 10 ->; i0 -> 10; w0 50 ->; w1 60 -> 60; a0 -> | aligned (1,)"),
    "IDLE twice is one": ("valve 2", "i0 ->; i0 ->; w1 5 -> 5; i0 -> | aligned (1,)"),
    "ACTIVE of an active channel is nothing": ("valve 2", "a0 -> | aligned (0, 1); w0 3 ->"),
    "none aligned, nothing is given out": (
        "valve 2",
        """
        w1 10 ->; i0 -> 10; a0 -> | aligned (1,); i1 -> | aligned () | is_idle False
        w0 5 -> | aligned () | last 10; w0 10 -> | aligned (0,); w0 11 -> 11
        """,
    ),
    "a channel that catches up and is not aligned moves nothing": (
        "valve 3",
        """
        w1 10 ->; w2 10 ->; i0 -> 10; a0 ->; w0 9 -> | aligned (1, 2); w1 20 ->
        w2 20 -> 20; w0 19 -> | aligned (1, 2); w0 20 -> | aligned (0, 1, 2); w1 30 ->
        w2 30 ->; w0 25 -> 25
        """,
    ),
    "a channel that catches up turns idle again": ("valve 2",
     "w1 10 ->; i0 -> 10; a0 ->; w0 4 ->; i0 ->; w1 12 -> 12 | aligned (1,)"),
}  # fmt: skip

IDLE_VALVES = {
    "all idle at the start": ("valve 2",
     "i0 ->; i1 -> idle | is_idle True | last min; a0 -> active | is_idle False"),
    "a valve of one channel": ("valve 1",
     "w0 5 -> 5; i0 -> idle; w0 9 ->; a0 -> active | aligned (0,); w0 9 -> 9"),
    "the last active channel held the valve back: the latest of all, then IDLE": ("valve 3",
     "w0 10 ->; w1 30 ->; w2 20 -> 10; i1 ->; i2 ->; i0 -> 30, idle | last 30"),
    "each that held it back gives way to the next": ("valve 3",
     "w0 10 ->; w1 20 ->; w2 30 -> 10; i0 -> 20; i1 -> 30; i2 -> idle | last 30"),
    "the last active channel is ahead of the valve: no flush": (
        "valve 3",
        """
        w0 10 ->; w1 4 ->; w2 20 -> 4; i2 ->; i1 -> 10; a1 -> | aligned (0,); i0 ->
        i1 -> idle | last 10; a2 -> active | aligned (2,); i2 -> idle | last 10
        a2 -> active; w2 21 -> 21
        """,
    ),
    "the last active channel has not caught up: no flush": ("valve 2",
     "w0 10 ->; i1 -> 10; a1 ->; i0 ->; w1 4 ->; i1 -> idle | last 10"),
    "after the flush a channel has to catch up with it": (
        "valve 2",
        """
        w0 10 ->; w1 30 -> 10; i1 ->; i0 -> 30, idle; a0 -> active | aligned (); w0 29 ->
        a1 -> | aligned (1,); w1 40 -> 40; w0 39 ->; w0 41 -> | aligned (0, 1)
        w1 42 -> 41
        """,
    ),
    "watermarks of an idle valve are ignored, also later": (
        "valve 2",
        """
        w0 10 ->; w1 10 -> 10; i0 ->; i1 -> idle; w0 90 ->; w1 90 ->; a0 -> active
        a1 -> | aligned (0, 1); w0 20 ->; w1 15 -> 15
        """,
    ),
    "ACTIVE comes once, before the first watermark": ("valve 3",
     "i0 ->; i1 ->; i2 -> idle; a1 -> active; a2 ->; w1 7 ->; w2 8 -> 7"),
    "ACTIVE moves no watermark: the next one does": (
        "valve 3",
        """
        w0 10 ->; w1 20 ->; w2 5 -> 5; i1 ->; i0 ->; a1 -> | aligned (1, 2); i2 -> 20
        a0 -> | aligned (1,); w1 21 -> 21
        """,
    ),
    "IDLE of a channel ahead looks at nothing, though all that count are ahead": (
        "valve 4",
        """
        w0 10 ->; w1 4 ->; w2 20 ->; w3 30 -> 4; i2 ->; i3 ->; i1 -> 10
        a1 -> | aligned (0,); i0 ->; i1 -> idle | last 10; a2 -> active
        a3 -> | aligned (2, 3); i2 -> | last 10; w3 31 -> 31
        """,
    ),
}  # fmt: skip

TABLES = [
    (name, *table)
    for tables in (LEAST_OF_ALL, IDLE_CHANNELS, IDLE_VALVES)
    for name, table in tables.items()
]
