"""Step tables of a task's barriers, worked out by hand from the reference's rules.

A step is a call, its arguments, and behind ``->`` what it causes. ``b0 #1`` is the barrier
of checkpoint 1 on channel 0 (``s``: of a savepoint, ``u``: unaligned, ``f``: one that is not),
``a`` an announcement, ``c`` a cancel marker, ``e`` the end of a channel, ``d0 5`` five bytes of
data, ``tick``. ``@`` sets the time; checkpoint n is triggered at 100 n. What is expected:
``trigger 1 aligned``, ``abort 1 subsumed``, ``resume 0``, ``overtake 0``, ``persist``; ``| name
value`` looks at an attribute after the step.
"""

SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
CANCELLED = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
ENDED = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"
REASONS = {"subsumed": SUBSUMED, "cancelled": CANCELLED, "ended": ENDED}

ALIGNED = {
    "the last barrier triggers, and all resume": (
        3,
        """
        @110 b1 #1 -> | blocked (1,) | start_delay 10 | is_pending True | pending_ids [1]
        @115 b0 #1 -> | blocked (0, 1) | alignment 0 | deadline None
        @130 b2 #1 -> trigger 1 aligned, resume 0, resume 1, resume 2 | blocked () | alignment 20
        """,
    ),
    "one channel aligns in no time": (
        1,
        """
        d0 9; @150 b0 #1 -> trigger 1 aligned, resume 0 | alignment 0 | start_delay 50
        d0 9 | bytes_processed 0 | is_pending False | latest_id 1 | pending_ids []
        """,
    ),
    "bytes count between first and last barrier, of every channel": (
        2,
        """
        d0 100; @110 b0 #1; d1 7; d1 8 | bytes_processed 15
        @120 b1 #1 -> trigger 1 aligned, resume 0, resume 1
        d0 50 | bytes_processed 15 | alignment 10 | persisted 0
        @210 b1 #2 -> | bytes_processed 0 | alignment 0
        """,
    ),
    "an older barrier resumes its channel": (
        2,
        """
        @210 b0 #2; @211 b1 #1 -> resume 1 | blocked (0,) | latest_id 2 | is_pending True
        @212 b1 #2 -> trigger 2 aligned, resume 0, resume 1
        @213 b1 #2 -> resume 1 | is_pending False
        """,
    ),
    "a newer barrier aborts the pending checkpoint": (
        3,
        """
        @110 b0 #1; @111 b1 #1
        @205 b2 #2 -> abort 1 subsumed, resume 0, resume 1 | blocked (2,) | pending_ids [2]
        b0 #2 -> | start_delay 5
        @209 b1 #2 -> trigger 2 aligned, resume 0, resume 1, resume 2 | alignment 4
        """,
    ),
    "a cancel marker of the pending checkpoint aborts it": (
        2,
        """
        @110 b0 #1
        d1 5
        @120 c1 #1 -> abort 1 cancelled, resume 0 | latest_id 1 | alignment 0 | bytes_processed 0
        @130 b1 #1 -> resume 1 | is_pending False
        c0 #1 ->
        """,
    ),
    "a cancel marker of a newer id is one abort": (
        2,
        """
        @110 b0 #1; c1 #3 -> abort 3 cancelled, resume 0 | latest_id 3 | is_pending False
        b1 #2 -> resume 1; b0 #3 -> resume 0; @410 b0 #4
        b1 #4 -> trigger 4 aligned, resume 0, resume 1
        """,
    ),
    "a cancel marker before anything": (2, "c0 #1 -> abort 1 cancelled | latest_id 1; c1 #1 ->"),
    "a cancel marker of an older id does nothing": (2,
     "@210 b0 #2; c1 #1 -> | is_pending True | latest_id 2 | blocked (0,)"),
    "a cancel marker of what no channel has delivered does nothing": (
        2,
        """
        @110 a0 #1 -> | is_pending True | start_delay 10; c1 #1 -> | is_pending True
        @120 b0 #1; c1 #1 -> abort 1 cancelled, resume 0
        """,
    ),
    "an end counts as a barrier": (
        3,
        """
        @110 b0 #1; @115 e1 -> | open_channels 2 | blocked (0,)
        @118 b2 #1 -> trigger 1 aligned, resume 0, resume 2 | alignment 8; @210 b0 #2
        @211 b2 #2 -> trigger 2 aligned, resume 0, resume 2
        """,
    ),
    "the last barrier may be an end": (2,
     "@110 b0 #1; @130 e1 -> trigger 1 aligned, resume 0 | alignment 20 | open_channels 1"),
    "a channel that delivered and ends counts once": (
        3,
        """
        @110 b0 #1; e0 -> | blocked () | is_pending True; b1 #1 ->
        b2 #1 -> trigger 1 aligned, resume 1, resume 2
        """,
    ),
    "an end with nothing pending": (2,
     "e0 -> | open_channels 1 | is_pending False; @120 b1 #1 -> trigger 1 aligned, resume 1"),
}  # fmt: skip

NO_FINISH = {
    "an end aborts what is pending": (
        3,
        """
        @110 b0 #1; e1 -> abort 1 ended, resume 0 | latest_id 1 | open_channels 2
        b2 #1 -> resume 2; e2 ->; @210 b0 #2 -> trigger 2 aligned, resume 0
        """,
    )
}

TIMEOUTABLE = {
    "complete before the timeout": (
        2,
        """
        @110 b0 #1 -> | deadline 150; @149 tick ->
        @150 b1 #1 -> trigger 1 aligned, resume 0, resume 1 | deadline None | persisted 0
        @151 tick ->
        """,
    ),
    "the timer switches": (
        3,
        """
        @110 b0 #1; @120 a1 #1; d1 5
        @150 tick -> overtake 1, resume 0, trigger 1 unaligned | blocked () | deadline None
        d1 6 -> persist; d2 7 -> persist
        d0 8 -> | persisted 13 | bytes_processed 26 | is_pending True
        @151 b1 #1 -> | blocked (); d1 9 -> | persisted 13
        @155 b2 #1 -> | is_pending False | alignment 45
        d2 9 -> | persisted 13 | bytes_processed 35
        """,
    ),
    "the timer before the first barrier": (
        2,
        """
        @110 a1 #1 -> | is_pending True | deadline 150 | start_delay 10; d0 3
        @150 tick -> overtake 1 | is_pending True; d0 4 -> | persisted 0
        @152 b1 #1 -> trigger 1 unaligned | start_delay 10; d0 5 -> persist
        @160 b0 #1 -> | alignment 8 | persisted 5
        """,
    ),
    "a barrier finds the age above the timeout, strictly": (
        3,
        """
        @110 b0 #1; @150 b1 #1 -> | blocked (0, 1)
        @151 b2 #1 -> trigger 1 aligned, resume 0, resume 1, resume 2; @210 b0 #2
        @251 b1 #2 -> resume 0, resume 1, trigger 2 unaligned | blocked () | deadline None
        d2 4 -> persist; @252 b2 #2 -> | is_pending False
        """,
    ),
    "a first barrier that is too old triggers at once": (
        2,
        """
        @151 b0 #1 -> resume 0, trigger 1 unaligned | start_delay 51
        @152 b1 #1 -> | alignment 1
        """,
    ),
    "an end finds the age above the timeout": (
        3,
        """
        @110 b0 #1; a2 #1; @151 e1 -> overtake 2, resume 0, trigger 1 unaligned
        d2 4 -> persist; @152 b2 #1 -> | persisted 4 | is_pending False
        """,
    ),
    "an announcement never switches": (
        2,
        """
        @110 b0 #1; @170 a1 #1 -> | blocked (0,) | deadline 150
        @171 tick -> overtake 1, resume 0, trigger 1 unaligned
        """,
    ),
    "a late first sight is due at once": (
        2,
        "@170 a1 #1 -> | deadline 170 | start_delay 70; @170 tick -> overtake 1",
    ),
    "an announcement after the switch overtakes at once": (
        2,
        """
        @110 b0 #1; @150 tick -> resume 0, trigger 1 unaligned; @151 a1 #1 -> overtake 1
        @152 b1 #1 -> | is_pending False
        """,
    ),
    "one channel never times out while it is blocked": (
        1,
        "@190 b0 #1 -> trigger 1 aligned, resume 0 | alignment 0",
    ),
    "an unaligned barrier from upstream switches": (
        3,
        """
        @110 b0 #1; a1 #1; @111 b2 #1 u -> overtake 1, resume 0, trigger 1 unaligned
        d1 3 -> persist; @112 b1 #1 -> | is_pending False | alignment 2
        @210 b0 #2 -> | blocked (0,)
        """,
    ),
    "a blocking barrier after the switch waits for the last one": (
        3,
        """
        @110 b0 #1; @150 tick -> resume 0, trigger 1 unaligned
        @151 b1 #1 f -> | blocked (1,)
        @152 b2 #1 -> resume 1 | blocked () | is_pending False
        """,
    ),
    "savepoints never time out": (
        2,
        """
        @210 b0 #2 s -> | deadline None; @290 tick ->; @291 a1 #1 ->
        @295 b1 #2 s -> trigger 2 aligned, resume 0, resume 1
        """,
    ),
    "a newer announcement aborts": (
        2,
        """
        @110 b0 #1
        @210 a1 #2 -> abort 1 subsumed, resume 0 | latest_id 2 | deadline 250 | blocked ()
        @211 b1 #2; @212 b0 #2 -> trigger 2 aligned, resume 0, resume 1
        """,
    ),
    "a cancel marker after the switch": (
        2,
        """
        @110 b0 #1; @150 tick -> resume 0, trigger 1 unaligned; d1 5 -> persist
        c1 #1 -> abort 1 cancelled | persisted 0 | is_pending False; d1 5 ->
        b1 #1 -> resume 1
        """,
    ),
    "an abort stops the timer": (
        2, "@110 b0 #1; c1 #1 -> abort 1 cancelled, resume 0 | deadline None; @150 tick ->",
    ),
    "a new checkpoint that is too old already": (
        2,
        "@110 b0 #1; @251 b1 #2 -> abort 1 subsumed, resume 0, resume 1, trigger 2 unaligned",
    ),
}  # fmt: skip

UNALIGNED = {
    "the first barrier triggers": (
        3,
        """
        d0 1; @110 b1 #1 -> trigger 1 unaligned | blocked () | is_pending True
        d0 2 -> persist; d1 3 ->; @115 b0 #1 ->; d0 4 ->; d2 5 -> persist
        @120 b2 #1 -> | is_pending False | persisted 7 | alignment 10 | bytes_processed 14
        d2 6 -> | persisted 7
        """,
    ),
    "one channel": (1, "@105 b0 #1 -> trigger 1 unaligned | alignment 0; d0 5 -> | persisted 0"),
    "an obsolete unaligned barrier is ignored": (
        2,
        "@210 b0 #2 -> trigger 2 unaligned; b1 #1 ->; b1 #2 ->; b0 #2 ->",
    ),
    "a newer barrier aborts what was triggered": (
        2,
        """
        @110 b0 #1 -> trigger 1 unaligned; d1 5 -> persist
        @210 b0 #2 -> abort 1 subsumed, trigger 2 unaligned | persisted 0
        """,
    ),
    "a savepoint is aligned": (
        2,
        """
        @110 b0 #1 s -> | blocked (0,); d1 5 ->
        b1 #1 s -> trigger 1 aligned, resume 0, resume 1 | persisted 0
        """,
    ),
    "a forced aligned barrier blocks": (
        2, "@110 b0 #1 f -> | blocked (0,); b1 #1 f -> trigger 1 aligned, resume 0, resume 1",
    ),
    "an end completes": (
        2, "@110 b0 #1 -> trigger 1 unaligned; @130 e1 -> | is_pending False | alignment 20",
    ),
}  # fmt: skip

AT_LEAST_ONCE = {
    "nothing blocks": (
        2,
        """
        @110 b0 #1 -> | blocked () | is_pending True | start_delay 10
        d0 5 -> | bytes_processed 5; a1 #2 -> | pending_ids [1]
        @120 b1 #1 -> trigger 1 at_least_once | alignment 10 | is_pending False | persisted 0
        """,
    ),
    "several are pending; completing one forgets the older": (
        2,
        """
        @110 b0 #1; @210 b0 #2; @310 b0 #3 -> | pending_ids [1, 2, 3]
        @311 b1 #2 -> trigger 2 at_least_once | pending_ids [3] | alignment 0
        @312 b1 #1 ->; @315 b1 #3 -> trigger 3 at_least_once | alignment 5
        """,
    ),
    "one open channel": (
        2, """
        e0 ->; @110 b1 #1 -> trigger 1 at_least_once | is_pending False; b1 #1 ->
        @210 b1 #2 -> trigger 2 at_least_once
        """,
    ),
    "a cancel marker aborts the older first": (
        3,
        """
        @110 b0 #1; @210 b0 #2; @310 b0 #3
        c1 #3 -> abort 1 cancelled, abort 2 cancelled, abort 3 cancelled | pending_ids [3]
        b1 #1 ->; c2 #3 -> | pending_ids [] | latest_id 3
        """,
    ),
    "a cancel marker of a newer id": (
        2,
        """
        @110 b0 #1
        c1 #2 -> abort 1 cancelled, abort 2 cancelled | pending_ids [2] | latest_id 2
        c1 #1 ->; b0 #2 -> | pending_ids [] | is_pending False
        """,
    ),
    "a cancel marker on the only open channel": (
        1, "c0 #1 -> abort 1 cancelled | latest_id 1 | pending_ids []; b0 #1 ->",
    ),
    "an end completes the newest that becomes full": (
        2,
        """
        @110 b0 #1; @210 b0 #2; @310 b1 #3 -> | pending_ids [1, 2, 3]
        e1 -> trigger 2 at_least_once | pending_ids [3]
        @320 b0 #3 -> trigger 3 at_least_once
        """,
    ),
    "an end of what was aborted": (
        2, "@110 b0 #1; c0 #1 -> abort 1 cancelled; e1 -> | pending_ids []",
    ),
}  # fmt: skip

AT_LEAST_ONCE_NO_FINISH = {
    "an end aborts all that is pending": (
        3,
        """
        @110 b0 #1; @210 b0 #2
        e1 -> abort 1 ended, abort 2 ended | pending_ids [] | open_channels 2 | is_pending False
        b2 #2 ->; e2 ->; @310 b0 #3 -> trigger 3 at_least_once
        """,
    )
}

TABLES = [
    (title, mode, finish, channels, steps)
    for mode, finish, tables in (
        ("aligned", True, ALIGNED),
        ("aligned", False, NO_FINISH),
        ("timeoutable", True, TIMEOUTABLE),
        ("unaligned", True, UNALIGNED),
        ("at_least_once", True, AT_LEAST_ONCE),
        ("at_least_once", False, AT_LEAST_ONCE_NO_FINISH),
    )
    for title, (channels, steps) in tables.items()
]
