"""Whether a subtask is busier than others for it has more to do, or for it is slower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowcontrol.analysis.wording import percent

LARGER: Final = 1.1
"""Times the mean of the others from which records, or busy time, are uneven."""


@dataclass(frozen=True)
class Uneven:
    """The subtask that has more to do than the others of its stage."""

    subtask: int  # Its index
    share: float  # Of the records that the stage took up (ratio)
    of_even: float  # That over an even share

    def sentence(self, stage: str) -> str:
        """Return its share in words."""
        return (
            f"Subtask {self.subtask} of {stage} took up {percent(self.share)} of its records, "
            f"{self.of_even:.1f} times an even share."
        )


def uneven_work(rows: Sequence[Mapping[str, Any]]) -> Uneven | None:
    """Return the busiest subtask if it is so since it gets more records.

    ``rows``: ``subtask``, ``busy_ms_per_s`` and ``records_in`` of each subtask of a stage.

    Returns None if none is busier than the others, or if it has no more records than they have, as
    a slow slot.
    """
    total = sum(row["records_in"] for row in rows)
    if len(rows) < 2 or not total:
        return None
    top = max(rows, key=lambda row: (row["busy_ms_per_s"], row["records_in"]))
    rest = [row for row in rows if row is not top]
    busier = _over(top["busy_ms_per_s"], [row["busy_ms_per_s"] for row in rest])
    more = _over(top["records_in"], [row["records_in"] for row in rest])
    if more < LARGER or busier < LARGER:
        return None
    share = top["records_in"] / total
    return Uneven(int(top["subtask"]), share, share * len(rows))


def _over(figure: float, others: Sequence[float]) -> float:
    """Return a figure over the mean of others; infinite if they have none."""
    mean = sum(others) / len(others)
    return figure / mean if mean > 0 else float("inf")
