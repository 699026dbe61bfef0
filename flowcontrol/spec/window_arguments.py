"""Reads the description of a window operator: assigner, trigger, aggregate."""

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from flowcontrol.protocol.windows import triggers as t
from flowcontrol.protocol.windows.contents import GLOBAL, PANES, SESSIONS
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME
from flowcontrol.state.windows import WindowSettings

GapFunction: TypeAlias = Callable[[Hashable, Any], int]
"""Returns the gap of an element, given its key and its value."""

AGGREGATES = ("count", "sum", "min", "max", "avg")
TIMES = ("event", "processing")
ASSIGNERS = {
    "tumbling": '("tumbling", size, offset)',
    "sliding": '("sliding", size, slide, offset)',
    "session": '("session", gap or function)',
    "global": '("global",)',
}
TRIGGERS = {
    "event": '("event",)',
    "processing": '("processing",)',
    "count": '("count", elements)',
    "continuous": '("continuous", ms)',
    "never": '("never",)',
    "end_of_stream": '("end_of_stream",)',
    "timeout": '("timeout", trigger, ms, reset, clear)',
}


def whole(value: Any, what: str, least: int = MIN_TIME) -> int:
    """Return a value that is a whole number of 64 bits, refuse another one.

    Raises ValueError if it is none, or below ``least``.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{what} is {value!r}: needs a whole number")
    if not least <= value <= MAX_TIME:
        limit = f"at least {least}" if value < least else f"at most {MAX_TIME}"
        raise ValueError(f"{what} is {value}: needs {limit}")
    return value


def read_settings(
    assigner: tuple[Any, ...], trigger: tuple[Any, ...], lateness: int, purging: bool, time: str
) -> WindowSettings:
    """Return what the rules are told, from the arguments of a window operator.

    Raises ValueError if one of them is refused.
    """
    if time not in TIMES:
        raise ValueError(f"time {time!r}: choose one of {', '.join(TIMES)}")
    settings = WindowSettings(
        is_event_time=int(time == "event"),
        lateness=whole(lateness, "lateness", 0),
        is_purging=int(purging),
    )
    _read_assigner(settings, _named(assigner, "assigner", ASSIGNERS))
    _read_trigger(settings, _named(trigger, "trigger", TRIGGERS), time)
    if settings.kind == SESSIONS and settings.timeout >= 0:
        raise ValueError('trigger "timeout" of sessions: it cannot merge them; take another one')
    if settings.kind == GLOBAL:
        settings.is_event_time = 0
    return settings


def gap_of(assigner: tuple[Any, ...]) -> GapFunction | None:
    """Return the gap function of an assigner; None: it has none."""
    return assigner[1] if assigner[0] == "session" and callable(assigner[1]) else None


def _named(given: Any, what: str, known: dict[str, str]) -> tuple[Any, ...]:
    """Return a description whose name is known."""
    if isinstance(given, list):
        given = tuple(given)
    if not isinstance(given, tuple) or not given or given[0] not in known:
        raise ValueError(f"{what} {given!r}: choose one of {', '.join(known.values())}")
    return given


def _needs(given: tuple[Any, ...], least: int, most: int, form: str) -> None:
    """Refuse a description with too few or too many values."""
    if not least <= len(given) - 1 <= most:
        raise ValueError(f"{given!r}: needs the form {form}")


def _read_assigner(settings: WindowSettings, given: tuple[Any, ...]) -> None:
    kind, form = given[0], ASSIGNERS[given[0]]
    if kind == "global":
        _needs(given, 0, 0, form)
        settings.kind = GLOBAL
    elif kind == "session":
        _needs(given, 1, 1, form)
        settings.kind = SESSIONS
        settings.gap = 0 if callable(given[1]) else whole(given[1], "gap of a session", 1)
    else:
        slides = kind == "sliding"
        _needs(given, 1 + slides, 2 + slides, form)
        settings.kind = PANES
        settings.size = whole(given[1], "size of a window", 1)
        settings.slide = whole(given[2], "slide", 1) if slides else settings.size
        settings.offset = whole(given[2 + slides], "offset") if len(given) == 3 + slides else 0
        if abs(settings.offset) >= settings.slide:
            limit = f"{'slide' if slides else 'size'} of {settings.slide}"
            raise ValueError(f"offset is {settings.offset}: needs less than the {limit}")
        settings.overlap = -(-settings.size // settings.slide)


def _read_trigger(settings: WindowSettings, given: tuple[Any, ...], time: str) -> None:
    kind = given[0]
    if kind == "timeout":
        _needs(given, 2, 4, TRIGGERS[kind])
        settings.timeout = whole(given[2], "timeout of a trigger", 0)
        settings.timeout_resets = int(len(given) > 3 and bool(given[3]))
        settings.timeout_clears = int(len(given) < 5 or bool(given[4]))
        known = {name: form for name, form in TRIGGERS.items() if name != kind}
        _read_trigger(settings, _named(given[1], 'trigger of a "timeout"', known), time)
        return
    takes = int(kind in ("count", "continuous"))
    _needs(given, takes, takes, TRIGGERS[kind])
    if kind == "count":
        settings.trigger, settings.every = t.COUNT, whole(given[1], "count of a trigger", 1)
    elif kind == "continuous":
        settings.every = whole(given[1], "interval of a trigger", 1)
        settings.trigger = t.CONTINUOUS_EVENT if time == "event" else t.CONTINUOUS_CLOCK
    elif kind == "end_of_stream" and settings.kind != GLOBAL:
        raise ValueError('trigger "end_of_stream": only a global window ends with the stream')
    else:
        plain = {"processing": t.PROCESSING, "never": t.NEVER}
        settings.trigger = plain.get(kind, t.EVENT)
