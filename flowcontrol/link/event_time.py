"""Event time of a link: watermarks of its channels, and which senders are too far ahead.

The rules are those of :mod:`flowcontrol.protocol.event_time`; a channel is a source's split with a
generator of its own, a sender is a subtask of a source, all senders of a link are one group.
"""

import time
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

from flowcontrol.errors import LinkError
from flowcontrol.link.settings import EVENT_TYPES, LinkSettings
from flowcontrol.protocol.event_time import (
    allowed_watermark,
    is_quiet_too_long,
    must_pause,
    note_report,
    on_event,
    on_probe,
    on_status,
    on_watermark,
    report_of,
)
from flowcontrol.state.tasks import (
    MAX_TIME,
    MIN_TIME,
    AlignedSource,
    Generator,
    Valve,
    ValveChannel,
    is_first,
)


def now_ms() -> int:
    """Return the time, Unix time in whole ms."""
    return int(time.time() * 1000)


def milliseconds(seconds: float) -> int:
    """Return a duration in whole ms."""
    return round(1000 * seconds)


def check_event_column(place: str, column: str | None, types: Mapping[str, str]) -> None:
    """Refuse rows without the column of event time.

    ``types``: spark's name of the type of each column.

    Raises LinkError if it is missing, or is not a time.
    """
    if column is None:
        return
    if column not in types:
        raise LinkError(
            f"the link {place} cannot carry these rows: event_time_column {column!r} is not among "
            f"the columns {', '.join(types)}: name one of them"
        )
    if types[column] not in EVENT_TYPES:
        raise LinkError(
            f"the link {place} cannot carry these rows: event_time_column {column!r} has the type "
            f"{types[column]}: needs a timestamp, a date, or a long of ms since 1970: cast it, or "
            "name another column"
        )


class EventTimes:
    """The watermark of each channel of a member, from the event times of what it has noted.

    ``column``: whose times these are; None: the link has no event time, and nothing is noted.
    """

    def __init__(self, settings: LinkSettings) -> None:
        self._channels: dict[Hashable, Generator] = {}
        self.column = settings.event_time_column
        self.adopt(settings)

    def adopt(self, settings: LinkSettings) -> None:
        """Take over the link's settings as they are now; with another column all begins anew."""
        if settings.event_time_column != self.column:
            self._channels, self.column = {}, settings.event_time_column
        self._delay = milliseconds(settings.watermark_delay_s)
        self._idle_after = milliseconds(settings.idle_after_s)
        for own in self._channels.values():
            own.out_of_orderness, own.idle_after = self._delay, self._idle_after

    def of(self, channel: Hashable) -> Generator:
        """Return the generator of a channel."""
        if channel not in self._channels:
            made = Generator(out_of_orderness=self._delay, idle_after=self._idle_after)
            self._channels[channel] = made
        return self._channels[channel]

    def note(self, channel: Hashable, latest: int | None) -> None:
        """Note the latest event time of some rows, ms; None if no row has one."""
        if latest is not None:
            on_event(self.of(channel), latest)

    def probe(self, channel: Hashable, now: int, *, has_rows: bool = False) -> None:
        """Advance a channel's watermark, and find out whether it is idle.

        - ``now``: Unix time, ms.
        - ``has_rows``: whether there are rows to read: then it is not idle, however long they wait.
        """
        own = self.of(channel)
        if has_rows:
            on_event(own, own.latest)
        own.quiet_since = min(own.quiet_since, now)  # a clock set back would not reach it for long
        on_probe(own, now)

    def watermark(self, channel: Hashable) -> int | None:
        """Return a channel's watermark, ms; None before the first."""
        return known(self.of(channel).watermark)

    # ------------------------------------------------------------------ the ledger

    def channel_state(self, channel: Hashable) -> dict[str, Any]:
        """Return the state of a channel that a restart resumes from, as plain JSON."""
        own = self.of(channel)
        return {
            "column": self.column,
            "latest": known(own.latest),
            "watermark": known(own.watermark),
            "quiet_since": own.quiet_since if own.is_counting else None,
            "is_idle": bool(own.is_idle),
        }

    def restore(self, channel: Hashable, state: Mapping[str, Any] | None) -> None:
        """Restore the state of a channel; that of another column is passed over."""
        if state is None or state["column"] != self.column:
            return
        own = self.of(channel)
        own.latest, own.watermark = (
            MIN_TIME if state[name] is None else state[name] for name in ("latest", "watermark")
        )
        quiet_since = state.get("quiet_since")
        own.is_idle = int(state.get("is_idle", False))
        own.is_counting, own.quiet_since = int(quiet_since is not None), quiet_since or 0

    def state(self, channels: Iterable[Hashable]) -> dict[str, Any]:
        """Return the state of several channels without their idleness, a list for each figure."""
        own = [self.of(channel) for channel in channels]
        return {
            "column": self.column,
            "latest": [known(one.latest) for one in own],
            "watermark": [known(one.watermark) for one in own],
        }

    def restore_all(self, state: Mapping[str, Any] | None) -> None:
        """Restore the state of the channels from 0 on."""
        if state is None:
            return
        both = zip(state["latest"], state["watermark"], strict=True)
        for channel, (latest, watermark) in enumerate(both):
            one = {"column": state["column"], "latest": latest, "watermark": watermark}
            self.restore(channel, one)


class Progress(NamedTuple):
    """How far a sender is, as a receiver sees it."""

    # The largest of its channels', ms, since it speaks for all that the sender has put into them;
    # MIN_TIME before the first.
    watermark: int
    is_idle: bool  # Whether all of its channels are
    is_finished: bool = False  # Whether no more rows come


def progress_of(channels: Iterable[tuple[int, bool]], *, is_finished: bool = False) -> Progress:
    """Return how far a sender is.

    - ``channels``: watermark of each of its channels, ms, MIN_TIME before the first, and whether it
      is idle.
    - ``is_finished``: whether no more rows come.
    """
    own = list(channels)
    watermark = max((watermark for watermark, _ in own), default=MIN_TIME)
    return Progress(watermark, all(is_idle for _, is_idle in own), is_finished)


def ahead_of_others(senders: Mapping[int, Progress], align_s: float | None) -> frozenset[int]:
    """Return the senders that get no credit: they are too far ahead of the slowest.

    - ``senders``: by number. Those that are idle, have finished, or have no watermark yet do not
      count; the slowest is never among the ones returned.
    - ``align_s``: how far ahead one may be, s; None: as far as it likes.
    """
    if align_s is None:
        return frozenset()
    sources = [AlignedSource() for _ in senders]
    for source, own in zip(sources, senders.values(), strict=True):
        report = report_of(own.watermark, int(own.is_idle), int(own.is_finished))
        if not is_first(report):
            note_report(source, report)
    allowed = allowed_watermark(sources, milliseconds(align_s))
    return frozenset(n for n, own in senders.items() if must_pause(own.watermark, allowed))


class Held(NamedTuple):
    """The watermark of a receiver, and what holds it back."""

    watermark: int | None  # Ms; None before the first
    # Places of the channels that hold it back: those that count and are the slowest.
    by: frozenset[int]


def receiver_watermark(channels: Iterable[tuple[int, bool]], before: int | None) -> Held:
    """Return the watermark of a receiver: that of its valve over all channels that it reads.

    - ``channels``: watermark of each, ms, MIN_TIME before the first, and whether it is idle.
    - ``before``: its last watermark, ms: it never falls, and a channel behind it does not count.
    """
    own, last = list(channels), MIN_TIME if before is None else before
    if not own:
        return Held(before, frozenset())
    counts = [not is_idle and watermark >= last for watermark, is_idle in own]
    valve, places = Valve(), [ValveChannel() for _ in own]
    for place, (watermark, _) in enumerate(own):
        on_watermark(valve, places, place, watermark)
    for place, is_counted in enumerate(counts):
        if not is_counted:
            on_status(valve, places, place, 1)
    watermark = max(last, valve.watermark)
    least = min((w for (w, _), c in zip(own, counts, strict=True) if c), default=MAX_TIME)
    by = (p for p, ((w, _), c) in enumerate(zip(own, counts, strict=True)) if c and w == least)
    return Held(known(watermark), frozenset(by))


def is_quiet(quiet_since: int, now: int, idle_after_s: float) -> bool:
    """Whether a channel without rows to read since a time is idle now, times in ms."""
    idle_after = milliseconds(idle_after_s)
    timer = Generator(idle_after=idle_after, is_counting=1, quiet_since=quiet_since)
    return is_quiet_too_long(timer, now) == 1


def known(moment: int) -> int | None:
    """Return a time, ms; None for the one before the first."""
    return None if is_first(moment) else moment
