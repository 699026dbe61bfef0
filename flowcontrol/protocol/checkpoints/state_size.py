"""How large a task's state is, and how much of it a checkpoint writes.

A model (``reference/checkpoints-and-time.md`` section 3, keys of ``state:`` in section 10 of the
design). All numbers are whole bytes; shares are fractions, so both clocks agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flowcontrol.protocol.ratios import ratio_of


def full_bytes(fixed: int, per_key: Fraction, keys: int, per_record: Fraction, records: int) -> int:
    """Size of a state, bytes, rounded down.

    Parameters
    ----------
    fixed : int
        Bytes whatever the input was.
    per_key, per_record : Fraction
        Bytes of each.
    keys, records : int
        Distinct keys, and records, seen so far.
    """
    return fixed + int(per_key * keys + per_record * records)


def written_bytes(full: int, last_full: int | None, share: Fraction) -> int:
    """Bytes that a checkpoint writes, rounded up.

    Parameters
    ----------
    full : int
        Size of the state, bytes.
    last_full : int or None
        Its size at the last *completed* checkpoint, which an incremental one refers to; None:
        there is none, and all is written.
    share : Fraction
        Share of that older state that has changed since, 0 to 1; 1: not incremental.

    Notes
    -----
    What the state has grown by is new and written whole. A state that has shrunk writes the share
    of what is left.
    """
    if last_full is None:
        return full
    kept = min(full, last_full)
    return full - kept - (-kept * share.numerator // share.denominator)


@dataclass(frozen=True)
class StateSize:
    """Sizes of one subtask's state, as a scenario states them.

    Parameters
    ----------
    fixed : int, default 0
        Bytes (``state.bytes``).
    per_key, per_record : Fraction, default 0
        Bytes (``state.bytes_per_key``, ``state.bytes_per_record``).
    incremental_share : Fraction, default 1
        As :func:`written_bytes` takes it.

    Raises
    ------
    ValueError
        If a size is negative or the share is not from 0 to 1.

    Examples
    --------
    >>> size = StateSize.of({"bytes": 1000, "bytes_per_key": 10, "incremental_share": 0.1})
    >>> size.full(keys=50), size.written(1500, None), size.written(1600, 1500)
    (1500, 1500, 250)
    """

    fixed: int = 0
    per_key: Fraction = Fraction(0)
    per_record: Fraction = Fraction(0)
    incremental_share: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("fixed", "per_key", "per_record"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"{name} is {value} bytes: needs at least 0")
        if not 0 <= self.incremental_share <= 1:
            raise ValueError(f"incremental_share is {self.incremental_share}: needs 0 to 1")

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "StateSize":
        """Return the sizes that a stage's ``state`` has; its other keys are for others.

        A number is the shortest decimal that reads back as its double: 0.1 is a tenth.
        """
        values = {
            name: ratio_of(_exact(state[key])) if _exact(state[key]) > 0 else _exact(state[key])
            for name, key in (
                ("per_key", "bytes_per_key"),
                ("per_record", "bytes_per_record"),
                ("incremental_share", "incremental_share"),
            )
            if key in state
        }
        return cls(fixed=int(_exact(state.get("bytes", 0))), **values)

    def full(self, keys: int = 0, records: int = 0) -> int:
        """Size after so many distinct keys and records, bytes."""
        return full_bytes(self.fixed, self.per_key, keys, self.per_record, records)

    def written(self, full: int, last_full: int | None) -> int:
        """Bytes that a checkpoint writes of a state of ``full``; see :func:`written_bytes`."""
        return written_bytes(full, last_full, self.incremental_share)


def _exact(value: Any) -> Fraction:
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
