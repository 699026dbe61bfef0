"""Snapshots of state: how large each is, and when it is uploaded."""

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction

from flowcontrol.state.declared import Kept

# --- How large a task's state is, and how much of it a checkpoint writes.
#
# A model (`reference/checkpoints-and-time.md` section 3, keys of `state:` in section 10 of
# the design). All numbers are whole bytes; shares are fractions, so both clocks agree.


def full_bytes(fixed: int, per_key: Fraction, keys: int, per_record: Fraction, records: int) -> int:
    """Size of a state, bytes, rounded down.

    ``per_key``, ``per_record``: bytes of each.
    """
    return fixed + int(per_key * keys + per_record * records)


def written_bytes(full: int, last_full: int | None, share: Fraction) -> int:
    """Bytes that a checkpoint writes, rounded up.

    What the state has grown by is new and written whole. A state that has shrunk writes the share
    of what is left.

    - ``full``: size of the state, bytes.
    - ``last_full``: its size at the last *completed* checkpoint, which an incremental one refers
      to; None: there is none, and all is written.
    - ``share``: share of that older state that has changed since, 0 to 1; 1: not incremental.
    """
    if last_full is None:
        return full
    kept = min(full, last_full)
    return full - kept - (-kept * share.numerator // share.denominator)


@dataclass(frozen=True)
class StateSize:
    """Sizes of one subtask's state, as a scenario states them.

    - ``per_key``, ``per_record``: bytes (``state.bytes_per_key``, ``state.bytes_per_record``).
    - ``incremental_share``: as :func:`written_bytes` takes it.
    """

    fixed: int = 0
    per_key: Fraction = Fraction(0)
    per_record: Fraction = Fraction(0)
    incremental_share: Fraction = Fraction(1)

    def full(self, keys: int = 0, records: int = 0) -> int:
        """Size after so many distinct keys and records, bytes."""
        return full_bytes(self.fixed, self.per_key, keys, self.per_record, records)

    def written(self, full: int, last_full: int | None) -> int:
        """Bytes that a checkpoint writes of a state of ``full``; see :func:`written_bytes`."""
        return written_bytes(full, last_full, self.incremental_share)


# --- Snapshots of a task manager's tasks on their way to storage: they share its bandwidth
# evenly.
#
# Processor sharing, exact: sizes left are fractions, so an upload may end between two
# microseconds, and those that go on have the whole bandwidth from that very moment. Only the
# answers are rounded. Denominators stay short: in thousands of uploads without a pause they
# had 45 bits at the most. A model of ours; Flink leaves sharing to the network
# (`reference/checkpoints-and-time.md` section 3).


MICROSECONDS = 1_000_000


class Uploads(Kept):
    """What the tasks of one task manager upload.

    Times are whole microseconds and never go back. A key names an upload: a task, or a task and a
    checkpoint where a task may have several at once.

    ``bytes_per_s``: bandwidth of the task manager, positive (``cluster.upload_bytes_per_s``).

    Raises ValueError if the bandwidth is not positive.

    Examples
    --------
    >>> uploads = Uploads(100)
    >>> uploads.start(0, "map", 100)
    >>> uploads.start(500_000, "sink", 100)
    >>> uploads.next_end()  # "map" has 50 bytes left, at half the bandwidth
    1500000
    >>> uploads.tick(2_000_000)
    ['map', 'sink']
    """

    _kept = ("_now", "_left", "_ended")

    def __init__(self, bytes_per_s: int | float | Fraction) -> None:
        if not bytes_per_s > 0:
            raise ValueError(f"upload bandwidth is {bytes_per_s} bytes/s: needs more than 0")
        self._rate = Fraction(bytes_per_s) / MICROSECONDS
        self._now = Fraction(0)
        self._left: dict[Hashable, Fraction] = {}
        self._ended: list[Hashable] = []

    @property
    def is_busy(self) -> bool:
        """Whether something is being uploaded, as of the last call."""
        return bool(self._left)

    @property
    def tasks(self) -> list[Hashable]:
        """Keys of what is being uploaded, in the order in which it started."""
        return list(self._left)

    def start(self, now: int, task: Hashable, nbytes: int) -> None:
        """Begin an upload.

        ``nbytes``: its size, at least 0; one of 0 ends at once.

        Raises ValueError if the task uploads already, or has ended and :meth:`tick` has not
        returned it yet; if the size is negative or time goes back.
        """
        if nbytes < 0:
            raise ValueError(f"task {task!r} uploads {nbytes} bytes: needs at least 0")
        self._advance(now)
        if task in self._left or task in self._ended:
            raise ValueError(
                f"task {task!r} uploads already at {now} us: cancel that upload, or let tick() "
                "return it"
            )
        if nbytes == 0:
            self._ended.append(task)
        else:
            self._left[task] = Fraction(nbytes)

    def next_end(self) -> int | None:
        """When :meth:`tick` will return the next task, microseconds; None if nothing is there."""
        if self._ended:
            return -(-self._now // 1)
        if not self._left:
            return None
        return -(-self._end_of(min(self._left.values())) // 1)

    def tick(self, now: int) -> list[Hashable]:
        """Return the tasks whose uploads have ended since the last call, in order of their ends.

        Raises ValueError if time goes back.
        """
        self._advance(now)
        ended, self._ended = self._ended, []
        return ended

    def cancel(self, task: Hashable, now: int | None = None) -> bool:
        """Give an upload up; the others share its bandwidth from then on.

        ``now``: microseconds; by default the time of the last call.

        False: nothing of that task was there. True also if it has ended, and then :meth:`tick` does
        not return it any more. Raises ValueError if time goes back.
        """
        if now is not None:
            self._advance(now)
        if task in self._ended:
            self._ended.remove(task)
            return True
        return self._left.pop(task, None) is not None

    def _end_of(self, left: Fraction) -> Fraction:
        """When so many bytes of each upload are done, if nothing begins or ends until then."""
        return self._now + left * len(self._left) / self._rate

    def _advance(self, now: int) -> None:
        """Upload until a moment, from end to end."""
        if now < self._now:
            raise ValueError(f"now is {now} us: needs at least {int(self._now)}, the last call's")
        while self._left:
            least = min(self._left.values())
            end = self._end_of(least)
            part = least if end <= now else (now - self._now) * self._rate / len(self._left)
            self._ended += [task for task, left in self._left.items() if left == part]
            self._left = {task: left - part for task, left in self._left.items() if left > part}
            if end > now:
                break
            self._now = end
        self._now = Fraction(now)
