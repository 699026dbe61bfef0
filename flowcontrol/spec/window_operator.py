"""A window operator as an object: checks arguments, grows as needed, lists results of each call."""

from collections.abc import Hashable, Iterator, Mapping
from copy import deepcopy
from fractions import Fraction
from math import isfinite
from numbers import Integral, Rational, Real
from typing import Any, Self, TypeAlias, cast

from flowcontrol.protocol.windows import firing
from flowcontrol.protocol.windows import triggers as t
from flowcontrol.protocol.windows.contents import cleanup_ms, last_ms, start_of
from flowcontrol.protocol.windows.firing import (
    ENTRY,
    FURTHER,
    STORE,
    bucket_of,
    buckets_for,
    further_of,
    open_places,
    put_entries,
)
from flowcontrol.spec.window_arguments import AGGREGATES, gap_of, read_settings, whole
from flowcontrol.state.declared import values_of
from flowcontrol.state.rows import Row
from flowcontrol.state.tasks import MAX_TIME
from flowcontrol.state.windows import (
    NONE,
    ColumnValues,
    WindowEntry,
    Windows,
    WindowSettings,
    WindowStore,
)

# --- What a window operator keeps beyond a call: more room, and a state to go on from.


def new_windows(settings: WindowSettings, capacity: int, table: Row | None = None) -> Windows:
    """Return an operator without windows.

    - ``capacity``: windows that it can keep at once, at least 1.
    - ``table``: values of the further columns; needed where there are such.
    """
    entries = [WindowEntry() for _ in range(capacity)]
    return Windows(
        settings,
        WindowStore(),
        entries,
        [NONE] * buckets_for(capacity),
        [0] * (capacity + 1),
        [0] * (capacity + 1),
        [ColumnValues() for _ in range((capacity + 1) * settings.further)],
        [] if table is None else table,
    )


def grow(windows: Windows, capacity: int) -> None:
    """Give an operator whose rows are lists room for so many windows; its windows stay."""
    more, further = capacity - len(windows.entries), windows.settings.further
    cast(list[WindowEntry], windows.entries).extend(WindowEntry() for _ in range(more))
    held = cast(list[ColumnValues], windows.further)
    held.extend(ColumnValues() for _ in range(more * further))
    for heap in (windows.event_heap, windows.clock_heap):
        cast(list[int], heap).extend([0] * more)
    _chain_anew(windows, windows.buckets)


def _chain_anew(windows: Windows, buckets: Row) -> None:
    """Make as many buckets as the entries want, and put the windows into them."""
    count = buckets_for(len(windows.entries))
    buckets[:] = [NONE] * count
    for place in open_places(windows):
        entry = windows.entries[place - 1]
        bucket = bucket_of(windows.settings, entry.key, entry.start, count)
        entry.chain = buckets[bucket]
        buckets[bucket] = place


def kept_state(windows: Windows) -> dict[str, Any]:
    """Return what an operator between two calls needs to go on, of plain numbers."""
    return {
        "store": {name: getattr(windows.store, name) for name in STORE},
        "entries": [_kept_entry(windows, place) for place in open_places(windows)],
    }


def _kept_entry(windows: Windows, place: int) -> dict[str, Any]:
    found = {name: getattr(windows.entries[place - 1], name) for name in ENTRY}
    return {**found, FURTHER: [list(values_of(held)) for held in further_of(windows, place)]}


def windows_of(
    settings: WindowSettings, state: Mapping[str, Any], least: int, table: Row | None = None
) -> Windows:
    """Return an operator that goes on from a kept state, with room for ``least`` windows."""
    windows = new_windows(settings, max(least, len(state["entries"])), table)
    for name in STORE:
        setattr(windows.store, name, state["store"][name])
    put_entries(windows, state["entries"])
    return windows


Result: TypeAlias = tuple[Hashable, int | float, int, int, int]
"""Key, aggregate, start and end of the window, timestamp."""

CAPACITY = 16
"""Windows that an operator has room for at first."""
NAMES_BYTES = 8 + 16
"""State of a window besides its accumulator: a key and a window (``TimeWindow``) of longs."""
LONG_BYTES = 8
SPARE_KEYS = 64
"""Keys without a window that are remembered at least."""


def window_start(timestamp: int, offset: int, size: int) -> int:
    """Return the start of the window that an element is in.

    ``TimeWindow.getWindowStartWithOffset``: t - ((t - offset) mod size), the remainder at least 0.

    - ``timestamp``, ``offset``: of the element, and of the windows, milliseconds.
    - ``size``: of a tumbling window, or the slide of a sliding one; above 0, milliseconds.

    Raises ValueError if an argument is not a whole number of 64 bits, or the size is not above 0.

    Examples
    --------
    >>> window_start(17, 0, 10), window_start(17, 8, 10), window_start(-1, 0, 10)
    (10, 8, -10)
    """
    whole(size, "size of a window", 1)
    return start_of(whole(timestamp, "timestamp"), whole(offset, "offset"), size)


class WindowOperator:
    """Windows of a keyed stream (``WindowOperator``).

    Nothing waits: times are arguments, and each call returns the results that it caused, a list of
    (key, aggregate, start, end, timestamp). All times are whole milliseconds of 64 bits. Timers
    fire in the order of their times, those of one time in the order in which windows began.

    The rules are in :mod:`flowcontrol.protocol.windows.firing`.

    - ``assigner``: ``("tumbling", size, offset)``, ``("sliding", size, slide, offset)`` (no offset:
      0), ``("session", gap)`` or ``("session", gap(key, value))``, ``("global",)``.
    - ``trigger``: ``("event",)``, ``("processing",)``, ``("count", n)``, ``("continuous", ms)``,
      which follows ``time``, ``("timeout", trigger, ms, reset, clear)``, which follows
      :meth:`tick`, ``("never",)``, and of global windows ``("end_of_stream",)``.
    - ``purging``: whether a window that fires is emptied, so that the next result has new elements
      only.
    - ``aggregate``: of the values: integers, or any numbers. Sums are exact, and stop at the ends
      of 64 bits.
    - ``time``: what windows follow: the elements' timestamps and :meth:`watermark`, or ``now`` of
      :meth:`element` and :meth:`tick`.
    - ``late``: (key, value, timestamp) of the elements that were too late for every window.

    Raises ValueError if an argument is refused.

    Examples
    --------
    >>> operator = WindowOperator(("tumbling", 10, 0), aggregate="count")
    >>> operator.element(0, "a", None, 3), operator.element(0, "a", None, 7)
    ([], [])
    >>> operator.watermark(9)
    [('a', 2, 0, 10, 9)]
    >>> operator.element(0, "a", None, 8), operator.late
    ([], [('a', None, 8)])
    """

    def __init__(
        self,
        assigner: tuple[Any, ...],
        trigger: tuple[Any, ...] = ("event",),
        lateness: int = 0,
        purging: bool = False,
        aggregate: str = "sum",
        time: str = "event",
    ) -> None:
        if aggregate not in AGGREGATES:
            raise ValueError(f"aggregate {aggregate!r}: choose one of {', '.join(AGGREGATES)}")
        settings = read_settings(assigner, trigger, lateness, purging, time)
        self._given = {
            "assigner": assigner,
            "trigger": trigger,
            "lateness": lateness,
            "purging": purging,
            "aggregate": aggregate,
            "time": time,
        }
        self._gap = gap_of(assigner)
        self._aggregate = aggregate
        self._follows_clock = time == "processing"
        self._windows = new_windows(settings, CAPACITY)
        self._codes: dict[Hashable, int] = {}
        self._keys: dict[int, Hashable] = {}
        self._next_code = 0
        self.late: list[tuple[Hashable, Any, int]] = []

    @property
    def dropped(self) -> int:
        """Elements that were too late for every window (``numLateRecordsDropped``)."""
        return self._windows.store.late

    @property
    def state_bytes(self) -> int:
        """Bytes of the windows that are kept: of each its key, its times and its accumulator."""
        accumulator = LONG_BYTES * (2 if self._aggregate == "avg" else 1)
        return self._windows.store.open * (NAMES_BYTES + accumulator)

    def element(self, now: int, key: Hashable, value: Any, timestamp: int) -> list[Result]:
        """Take an element; return the results that it causes at once.

        - ``value``: what is aggregated; anything if that is "count".
        - ``timestamp``: its event time; does not count under ``time="processing"``.

        Raises ValueError if a time or the value is not a number of 64 bits, or a gap is negative.
        Nothing has changed then.
        """
        windows = self._windows
        whole(now, "now")
        at = now if self._follows_clock else whole(timestamp, "timestamp")
        number = 0 if self._aggregate == "count" else _number(value)
        if self._gap is not None:
            windows.settings.gap = whole(self._gap(key, value), f"gap of key {key!r}", 0)
        code = self._code_of(key)
        done = firing.on_element(windows, code, at, number, now)
        if done == firing.FULL:
            room = max(2 * len(windows.entries), windows.store.open + windows.settings.overlap)
            grow(windows, room)
            done = firing.on_element(windows, code, at, number, now)
        if done == firing.LATE:
            self.late.append((key, value, timestamp))
        return self._results()

    def watermark(self, w: int) -> list[Result]:
        """Take a watermark; return the results of the timers of event time that it has passed.

        One below the last one is ignored.

        Raises ValueError if it is not a whole number of 64 bits.
        """
        firing.on_watermark(self._windows, whole(w, "watermark"))
        return self._results()

    def tick(self, now: int) -> list[Result]:
        """Let the clock go on; return the results of the timers of processing time that are due.

        Raises ValueError if it is not a whole number of 64 bits.
        """
        firing.on_clock(self._windows, whole(now, "now"))
        return self._results()

    def timers(self, window: tuple[int, int]) -> list[int]:
        """Return the times of the timers of a window (start, end), of all keys, in order."""
        settings = self._windows.settings
        found = set()
        for entry in open_entries(self._windows):
            if (entry.start, entry.end) == tuple(window):
                found |= _times(settings, entry, entry.event_timers)
                found |= _times(settings, entry, entry.clock_timers)
        return sorted(found)

    def snapshot(self) -> dict[str, Any]:
        """Return the state, from which :meth:`restore` goes on; a copy."""
        entries = open_entries(self._windows)
        used = sorted({entry.key for entry in entries})
        return {
            "given": dict(self._given),
            "windows": kept_state(self._windows),
            "keys": [[code, self._keys[code]] for code in used],
            "next_code": self._next_code,
            "late": deepcopy(self.late),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Self:
        """Return an operator that goes on from a snapshot, with its settings and watermark."""
        operator = cls(**state["given"])
        settings = operator._windows.settings
        operator._windows = windows_of(settings, state["windows"], CAPACITY)
        for code, key in state["keys"]:
            operator._codes[key], operator._keys[code] = code, key
        operator._next_code = state["next_code"]
        operator.late = [(key, value, timestamp) for key, value, timestamp in state["late"]]
        return operator

    def _code_of(self, key: Hashable) -> int:
        """Return the integer that stands for a key; those without windows are forgotten."""
        code = self._codes.get(key)
        if code is not None:
            return code
        if len(self._codes) > 2 * self._windows.store.open + SPARE_KEYS:
            used = {entry.key for entry in open_entries(self._windows)}
            self._keys = {code: self._keys[code] for code in used}
            self._codes = {key: code for code, key in self._keys.items()}
        self._codes[key], self._keys[self._next_code] = self._next_code, key
        self._next_code += 1
        return self._next_code - 1

    def _results(self) -> list[Result]:
        """Go on until nothing is left to do; return the results."""
        store, found = self._windows.store, []
        while firing.next_result(self._windows) == 1:
            key = self._keys[store.result_key]
            window = store.result_start, store.result_end, store.result_ms
            found.append((key, self._value(), *window))
        return found

    def _value(self) -> int | float:
        """Return the aggregate of the newest result."""
        store = self._windows.store
        if self._aggregate == "count":
            return store.result_count
        number: int | Fraction
        if self._aggregate == "avg":
            number = store.result_sum + (store.result_wraps << 64)
            return float(Fraction(number, store.result_count))
        if self._aggregate == "sum":
            number = sum_within(store.result_sum, store.result_wraps)
        else:
            number = getattr(store, f"result_{self._aggregate}")
        return float(number) if isinstance(number, Fraction) else number


def _number(value: Any) -> Any:
    """Return a value as the rules take it: an integer, or an exact fraction."""
    if isinstance(value, Integral):
        return whole(int(value), "value")
    if not isinstance(value, Real) or not isfinite(value):
        raise ValueError(f"value is {value!r}: needs a finite number")
    number = Fraction(value) if isinstance(value, Rational) else Fraction(float(value))
    if abs(number) > MAX_TIME:
        raise ValueError(f"value is {value!r}: needs at most {MAX_TIME}, of either sign")
    return number


def _times(settings: WindowSettings, entry: WindowEntry, timers: int) -> set[int]:
    """Return the times of a window's timers."""
    times = {
        t.END: last_ms(settings, entry.end),
        t.NEXT: entry.next_fire,
        t.CLEANUP: cleanup_ms(settings, entry.end),
        t.TIMEOUT: entry.timeout_at,
    }
    return {at for timer, at in times.items() if timers & timer}


def open_entries(windows: Windows) -> Iterator[WindowEntry]:
    """Yield the windows that are kept, the one that began first in front."""
    return (windows.entries[place - 1] for place in open_places(windows))


def sum_within(number: int, wraps: int) -> int:
    """Return a sum of values, or the end of the 64 bits that it is beyond.

    ``number``, ``wraps``: as a window holds them: the sum is ``number + wraps * 2**64``.
    """
    if wraps > 0:
        return MAX_TIME
    return -MAX_TIME - 1 if wraps < 0 else number
