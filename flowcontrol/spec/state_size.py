"""Sizes of a subtask's state, read from a mapping and checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from flowcontrol.protocol.checkpoints import snapshots
from flowcontrol.protocol.service import ratio_of


@dataclass(frozen=True)
class StateSize(snapshots.StateSize):
    """Sizes of one subtask's state, as a scenario states them.

    Raises ValueError if a size is negative or the share is not from 0 to 1.

    Examples
    --------
    >>> size = StateSize.of({"bytes": 1000, "bytes_per_key": 10, "incremental_share": 0.1})
    >>> size.full(keys=50), size.written(1500, None), size.written(1600, 1500)
    (1500, 1500, 250)
    """

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("fixed", "per_key", "per_record"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"{name} is {value} bytes: needs at least 0")
        if not 0 <= self.incremental_share <= 1:
            raise ValueError(f"incremental_share is {self.incremental_share}: needs 0 to 1")

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Self:
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


def _exact(value: Any) -> Fraction:
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
