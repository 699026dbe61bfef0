"""Step tables of what makes watermarks, and of sources that wait, worked out from section 6.

A step is ``@`` and the time, if it matters, a call, and behind ``->`` what it returns.

- Generators: ``e 100`` is an event of time 100, ``p`` a probe; ``in 5``, of one in the middle of a
  job, a watermark from upstream.
- Splits: ``add a``, ``u a 10`` an immediate watermark, ``d a 10`` a deferred one, ``i a`` idle,
  ``remove a``, ``p`` a probe.
- A group: ``r a 100`` is a report, ``? a 100`` asks whether that subtask is paused.
- A task of a group: ``at 100`` is its watermark, ``told 50`` what it hears; ``report``, ``idle``
  and ``finish`` return its report.
- A clock of idleness: ``stop``, ``go``, ``time``.

``min`` and ``max`` are the ends of time; ``| name value`` looks at an attribute after the step.
"""

GENERATORS = {
    "a probe gives the latest time less the bound less 1": ("generator 10",
     "e 100 ->; p -> 89; e 200 ->; p -> 189 | watermark 189"),
    "nothing before the first event": ("generator 10", "p ->; p -> | watermark min; e 5; p -> -6"),
    "ascending times: less 1": ("generator 0", "e 100 ->; p -> 99; e 101; p -> 100"),
    "events out of order do not turn it back": ("generator 10",
     "e 100; e 95; p -> 89; e 60; p ->; e 99; p ->; e 101; p -> 90"),
    "only later watermarks leave": ("generator 10", "e 100; p -> 89; p ->; e 100; p ->"),
    "only the latest of an interval counts": ("generator 5", "e 10; e 30; e 20; p -> 24"),
    "the bound does not lead below MIN": (
        "generator 10",
        """
        e min; p -> | watermark min; e -9223372036854775798; p -> | watermark min
        e -9223372036854775796; p -> -9223372036854775807
        """,
    ),
    "the largest bound": ("generator max", "e -1; p ->; e 5; p -> -9223372036854775803"),
    "an event at the end of time": ("generator 0", "e max; p -> 9223372036854775806; p ->"),
    "punctuated: at the event, its time itself": ("punctuated",
     "e 100 -> 100; e 100 ->; e 99 ->; e 102 -> 102; p -> | watermark 102"),
    "a generator in the middle forwards the end of time alone": ("middle 10",
     "in 5000 ->; e 100; p -> 89; in 9000 ->; in max -> max; in max ->; p ->"),
}  # fmt: skip

IDLENESS = {
    "idle strictly more than the timeout after the first quiet probe": (
        "generator 10 300",
        """
        @10 e 100; @200 p -> 89; @400 p ->; @700 p -> | is_idle False
        @701 p -> idle | is_idle True; @900 p -> none or idle
        """,
    ),
    "detected at the end of an interval": ("generator 10 300",
     "@0 e 100; @200 p -> 89; @400 p ->; @600 p ->; @800 p -> idle"),
    "idle without any event": ("generator 0 1", "@5 p ->; @6 p ->; @7 p -> idle | watermark min"),
    "an event before the timeout starts it anew": (
        "generator 10 300",
        """
        @0 p ->; @200 p ->; @300 e 50; @400 p -> 39; @600 p ->; @800 p ->; @900 p ->
        @1000 p -> idle
        """,
    ),
    "activity after idleness": (
        "generator 10 300",
        """
        @0 p ->; @400 p -> idle; @450 e 100 -> | is_idle True
        @600 p -> 89 | is_idle False; @800 p ->; @1100 p ->; @1101 p -> idle
        """,
    ),
    "an old event after idleness makes no watermark": (
        "generator 10 300",
        """
        @0 e 100; @200 p -> 89; @400 p ->; @800 p -> idle; @850 e 90
        @1000 p -> | is_idle True; @1200 p ->; @1600 p -> idle
        """,
    ),
    "time zero is a time like others": ("generator 0 5", "@0 p ->; @5 p ->; @6 p -> idle"),
    "punctuated: idle and active again at the event": ("punctuated 300",
     "@0 e 7 -> 7; @200 p ->; @400 p ->; @701 p -> idle; @702 e 8 -> 8 | is_idle False"),
    "without a timeout never idle": ("generator 0", "@0 p ->; @999999999 p -> | is_idle False"),
    "the clock of idleness stands": ("clock",
     "@10 time -> 10; @15 stop; @40 time -> 15; @50 go; @60 time -> 25"),
    "it stands until no reason is left": (
        "clock",
        """
        @10 stop; @20 stop; @30 go; @40 time -> 10; @50 go; @55 time -> 15; @60 stop
        @70 go; @71 time -> 21
        """,
    ),
}  # fmt: skip

SPLITS = {
    "the least of the splits, at the event": ("splits",
     "add a; add b; u a 20 ->; u b 10 -> 10; u b 30 -> 20; u a 25 -> 25"),
    "a deferred watermark waits for the probe": (
        "splits",
        "add a; d a 20 -> | watermark min; p -> 20; d a 30; d a 25; p -> 30; p ->",
    ),
    "an immediate one brings the deferred along": ("splits",
     "add a; add b; d a 20; u b 30 -> 20; d a 50; u b 20 ->; u b 40 -> 40"),
    "a split that is not later moves nothing": ("splits",
     "add a; u a 20 -> 20; u a 20 ->; u a 19 -> | watermark 20"),
    "a split that held the others back turns idle": ("splits",
     "add a; add b; u a 20 ->; i b -> 20 | is_idle False"),
    "all idle": ("splits",
     "add a; add b; u a 20 ->; u b 10 -> 10; i a ->; i b -> idle | watermark 10; p ->"),
    "active with the next watermark": ("splits",
     "add a; u a 10 -> 10; i a -> idle; u a 11 -> active, 11; i a -> idle | is_idle True"),
    "an old watermark makes the split active, and those downstream hear nothing": (
        "splits",
        """
        add a; add b; u a 9 ->; u b 9 -> 9; i a ->; i b -> idle; u a 9 -> | is_idle True
        u b 12 ->; u a 11 -> active, 11
        """,
    ),
    "a deferred watermark ends idleness at the probe": ("splits",
     "add a; i a -> idle; d a 5 ->; p -> active, 5"),
    "removing a split moves nothing before the probe": ("splits",
     "add a; add b; u a 20 ->; u b 10 -> 10; remove b -> True | watermark 10; p -> 20"),
    "the last active split is removed": ("splits",
     "add a; add b; u a 10 ->; i b -> 10; remove a -> True; p -> idle"),
    "without splits nothing": ("splits",
     "p ->; add a; u a 10 -> 10; remove a -> True; p ->; remove a -> False"),
    "a new split holds the source back": ("splits",
     "add a; u a 10 -> 10; add b; u a 20 ->; p ->; u b 5 ->; u b 15 -> 15"),
    "a split that comes again starts anew": (
        "splits",
        """
        add a; add b; u a 10 ->; u b 20 -> 10; remove a -> True; add a; p ->; u b 30 ->
        u a 25 -> 25
        """,
    ),
    "all splits at the end of time": ("splits", "add a; u a max -> max; p ->; i a -> idle"),
}  # fmt: skip

ALIGNMENT = {
    "allowed is the least reported + drift": (
        "group 1000",
        "r a 9000 -> 10000; r b 5000 -> 6000; r a 9500 -> 6000; r b 7000 -> 8000 | allowed 8000",
    ),
    "paused strictly beyond, resumed at": (
        "group 10",
        "r a 100 -> 110; ? a 110 -> False; ? a 111 -> True; ? b 110 -> False; ? b 5000 -> True",
    ),
    "nobody is paused before the first report": ("group 0", "? a max -> False | allowed max"),
    "an idle subtask holds nobody back": (
        "group 10",
        "r a 100 -> 110; r b 50 -> 60; r b max -> 110; ? a 105 -> False; r b 60 -> 70",
    ),
    "all idle: the sum stops at the end of time": (
        "group 1000",
        "r a max -> max; r b max -> max; ? a max -> False",
    ),
    "close to the end of time": (
        "group 1000",
        "r a 9223372036854774807 -> max; r a 9223372036854774806 -> 9223372036854775806",
    ),
    "without drift the last one sets the pace": (
        "group 0",
        "r a 5 -> 5; r b 4 -> 4; ? a 5 -> True; ? b 4 -> False; r b 5 -> 5; ? a 5 -> False",
    ),
    "what was allowed last counts, reported or not": (
        "group 10",
        "r a 100 -> 110; ? a 120 -> True; r a 120 -> 130; ? a 120 -> False; ? a 131 -> True",
    ),
    "from the start of time": (
        "group 5",
        "r a min -> -9223372036854775803; r b 0 -> -9223372036854775803; ? b 0 -> True",
    ),
    "a task pauses once and resumes once": (
        "task",
        """
        at 500 ->; told 400 -> pause; at 600 ->; told 599 ->; told 600 -> resume
        at 601 -> pause; told 700 -> resume
        """,
    ),
    "a task reports its watermark, or MAX": (
        "task",
        """
        report -> min; idle -> min; at 500 ->; report -> 500; idle -> max; report -> 500
        finish -> max
        """,
    ),
    "a task that finishes without a watermark": ("task", "report -> min; finish -> max"),
}  # fmt: skip

TABLES = [
    (name, *table)
    for tables in (GENERATORS, IDLENESS, SPLITS, ALIGNMENT)
    for name, table in tables.items()
]
