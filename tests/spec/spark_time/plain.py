"""An aggregation as plainly as it can be said: dictionaries and sorted lists, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol

from flowcontrol.spec.spark_aggregation import Group

Row = tuple[int, Hashable]


class Held(Protocol):
    """The state of an aggregation."""

    def partials(self, inputs: Sequence[Sequence[Row]]) -> list[Group]:
        """Group the rows of a batch, before any of them meets the state."""

    def add(self, partials: Iterable[Group]) -> list[Group]:
        """Add what is not late; return the groups that changed."""

    def evict(self, watermark: int) -> list[Group]:
        """Remove the groups whose windows are over, and return them."""

    def groups(self) -> list[Group]:
        """Return all groups."""

    def __len__(self) -> int:
        """Count the groups."""


class WindowGroups:
    """Groups of tumbling and sliding windows: a row of state per window and key.

    Parameters
    ----------
    size, slide : int
        Length of a window, and distance of two starts, ms.
    offset : int
        Where a window starts, ms.
    """

    def __init__(self, size: int, slide: int, offset: int) -> None:
        self._numbers = size, slide, offset
        self._counts = dict[tuple[int, int, Hashable], int]()

    def __len__(self) -> int:
        """Count the groups."""
        return len(self._counts)

    def partials(self, inputs: Sequence[Sequence[Row]]) -> list[Group]:
        """Group the rows of a batch; those of all inputs meet in one place before the state.

        Parameters
        ----------
        inputs : sequence of sequences of (int, key)
            Rows of each input.
        """
        size, slide, offset = self._numbers
        found = dict[tuple[int, int, Hashable], int]()
        for rows in inputs:
            for time, key in rows:
                start = (time - offset) // slide * slide + offset
                while start + size > time:
                    found[start, start + size, key] = found.get((start, start + size, key), 0) + 1
                    start -= slide
        return [Group(*group, count) for group, count in found.items()]

    def add(self, partials: Iterable[Group]) -> list[Group]:
        """Add what is not late; return the groups that changed."""
        changed = list[Group]()
        for start, end, key, count in partials:
            total = self._counts.get((start, end, key), 0) + count
            self._counts[start, end, key] = total
            changed.append(Group(start, end, key, total))
        return changed

    def evict(self, watermark: int) -> list[Group]:
        """Remove the groups whose windows are over, and return them."""
        gone = [group for group in self.groups() if group.end <= watermark]
        for start, end, key, _ in gone:
            del self._counts[start, end, key]
        return gone

    def groups(self) -> list[Group]:
        """Return all groups."""
        return [Group(*group, count) for group, count in self._counts.items()]


class Sessions:
    """Sessions of each key: a row of state per session.

    Parameters
    ----------
    gap : function of a key
        How long after a row another one still belongs to its session, ms; rows of a key whose gap
        is not above 0 are left out.
    """

    def __init__(self, gap: Callable[[Hashable], int]) -> None:
        self._gap = gap
        self._sessions = dict[Hashable, list[Group]]()

    def __len__(self) -> int:
        """Count the sessions."""
        return sum(map(len, self._sessions.values()))

    def partials(self, inputs: Sequence[Sequence[Row]]) -> list[Group]:
        """Group the rows of a batch: those of one input, key and time, each as a session.

        Parameters
        ----------
        inputs : sequence of sequences of (int, key)
            Rows of each input. Rows of several inputs stay apart: nothing adds them up before
            late ones are dropped, so each counts there.
        """
        partials = list[Group]()
        for rows in inputs:
            found = dict[Row, int]()
            for row in rows:
                found[row] = found.get(row, 0) + 1
            for (time, key), count in found.items():
                if (gap := self._gap(key)) > 0:
                    partials.append(Group(time, time + gap, key, count))
        return partials

    def add(self, partials: Iterable[Group]) -> list[Group]:
        """Add what is not late, and merge sessions that touch; return those of its keys."""
        added = dict[Hashable, list[Group]]()
        for partial in partials:
            added.setdefault(partial.key, []).append(partial)
        for key, sessions in added.items():
            self._sessions[key] = merge([*self._sessions.get(key, ()), *sessions])
        return [session for key in added for session in self._sessions[key]]

    def evict(self, watermark: int) -> list[Group]:
        """Remove the sessions that are over, and return them."""
        gone = [session for session in self.groups() if session.end <= watermark]
        for key in dict.fromkeys(session.key for session in gone):
            kept = [one for one in self._sessions.pop(key) if one.end > watermark]
            if kept:
                self._sessions[key] = kept
        return gone

    def groups(self) -> list[Group]:
        """Return all sessions."""
        return [session for sessions in self._sessions.values() for session in sessions]


def merge(sessions: Iterable[Group]) -> list[Group]:
    """Make one of sessions of a key that touch, in the order of their starts.

    Parameters
    ----------
    sessions : iterable of Group
        Of one key, in any order.
    """
    merged = list[Group]()
    for session in sorted(sessions, key=lambda one: one[:2]):
        if merged and session.start <= merged[-1].end:
            last = merged[-1]
            end, rows = max(last.end, session.end), last.rows + session.rows
            merged[-1] = last._replace(end=end, rows=rows)
        else:
            merged.append(session)
    return merged


class Plain:
    """The same as a ``SparkAggregation``, of a case.

    Parameters
    ----------
    case : Case
        A query.
    """

    def __init__(self, case: Any) -> None:
        kind, *numbers = case.windows.argument()
        gap = numbers[0] if callable(numbers[0]) else lambda _: numbers[0]
        if kind == "tumbling":
            numbers.insert(1, numbers[0])
        self._case, self._is_session = case, kind == "session"
        self.held: Held = Sessions(gap) if self._is_session else WindowGroups(*(*numbers, 0)[:3])
        self._seen = [0] * case.inputs
        self._used, self.watermark, self.dropped = 0, 0, 0
        self._has_run = False

    @property
    def state_rows(self) -> int:
        """Groups held."""
        return len(self.held)

    @property
    def needs_no_data_batch(self) -> bool:
        """Whether a batch follows though no data comes."""
        is_due = self._has_run and self.watermark > self._used
        return is_due and self._case.no_data_batches and self._case.mode != "complete"

    def restart(self) -> None:
        """Forget what a checkpoint does not hold."""
        self._has_run, self._seen = False, [0] * self._case.inputs

    def late(self, batch: Sequence[Sequence[Row]]) -> list[Group]:
        """Return the groups of a batch that come too late for it."""
        if self._case.delays is None or (self._case.mode == "complete" and not self._is_session):
            return []
        watermark = self._used if self._case.multiple else self.watermark
        return [group for group in self.held.partials(batch) if group.end <= watermark]

    def batch(self, *batch: Sequence[Row]) -> list[Group]:
        """Run a batch."""
        late, delays = self.late(batch), self._case.delays
        self.dropped += len(late)
        partials = self.held.partials(batch)
        for one in late:
            partials.remove(one)
        answer = changed = self.held.add(partials)
        if self._case.mode != "complete" and delays is not None:
            answer = self.held.evict(self.watermark)
        if self._case.mode != "append":
            answer = changed if self._case.mode == "update" else self.held.groups()
        self._has_run, self._used = True, self.watermark
        if delays is not None:
            for at, (rows, delay) in enumerate(zip(batch, delays, strict=False)):
                latest = max((time for time, _ in rows), default=0)
                self._seen[at] = max(self._seen[at], latest - delay)
            chosen = min(self._seen) if self._case.policy == "min" else max(self._seen)
            self.watermark = max(self.watermark, chosen)
        return sorted(answer, key=lambda group: (group.end, group.start))
