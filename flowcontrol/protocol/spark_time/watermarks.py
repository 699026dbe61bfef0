"""Rules of the watermark of a structured stream, each a function of integers.

Times are whole milliseconds. Every ``withWatermark`` operator has a watermark of its own, the
query has one: their minimum or maximum. It is worked out at the end of a batch and used from the
next one on, so a batch knows two: its own and that of the batch before.

Source: Spark 4.2's ``WatermarkTracker``, ``WatermarkPropagator`` and ``statefulOperators``;
section 7 of checkpoints-and-time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MINIMUM = 0
"""Policy: the slowest operator's watermark (``spark.sql.streaming.multipleWatermarkPolicy``)."""
MAXIMUM = 1
"""Policy: the fastest operator's watermark."""

APPEND = 0
"""Output mode: a group once, when its window is over."""
UPDATE = 1
"""Output mode: the groups that a batch changed."""
COMPLETE = 2
"""Output mode: all groups, in every batch."""


@dataclass(slots=True)
class WatermarkOperator:
    """A ``withWatermark`` operator (``EventTimeWatermarkExec``)."""

    delay: int = 0
    """What it stays behind the latest event time, ms; constant."""
    watermark: int = 0
    """Its own watermark, ms; 0 before it has seen a row."""


@dataclass(slots=True)
class QueryWatermark:
    """The watermark of a query, and what it was."""

    policy: int = MINIMUM
    """MINIMUM or MAXIMUM; constant."""
    current: int = 0
    """That of the batch that is next or running, ms."""
    used: int = 0
    """That of the last batch, ms; 0 before the first."""
    has_plan: int = 0
    """1: a batch has run since the query started; without one no batch without data follows."""


def observe(operator: WatermarkOperator, latest: int) -> None:
    """Take in the latest event time of a batch that has rows for this operator.

    Parameters
    ----------
    operator : WatermarkOperator
        Any of the query's.
    latest : int
        Milliseconds. Late rows count too.

    Notes
    -----
    Spark may keep a watermark below 0 here; the query's is never below 0, so 0 does as well.
    """
    operator.watermark = max(operator.watermark, latest - operator.delay)


def end_batch(query: QueryWatermark, operators: Sequence[WatermarkOperator]) -> None:
    """Work out the watermark of the next batch, when a batch is done.

    Parameters
    ----------
    query : QueryWatermark
        Of the query.
    operators : sequence of WatermarkOperator
        All of them, also those without a row so far; at least one.
    """
    query.used = query.current
    query.has_plan = 1
    chosen = operators[0].watermark
    for i in range(len(operators)):
        if query.policy == MAXIMUM:
            chosen = max(chosen, operators[i].watermark)
        else:
            chosen = min(chosen, operators[i].watermark)
    query.current = max(query.current, chosen)


def is_over(end: int, watermark: int) -> int:
    """Tell whether a window lies behind a watermark: 1 if so.

    The one predicate for both: with :func:`late_watermark` for rows that come too late, with the
    batch's own watermark for what is evicted.
    """
    return 1 if end <= watermark else 0


def drops_late(mode: int, is_session: int) -> int:
    """Tell whether rows of windows that are over are dropped: 1 if so.

    In complete mode all groups are kept, so nothing is late; but sessions drop late rows before
    they ask for the mode (``SessionWindowStateStoreRestoreExec``).
    """
    return 1 if mode != COMPLETE or is_session == 1 else 0


def evicts(mode: int) -> int:
    """Tell whether groups whose windows are over are removed: 1 if so."""
    return 0 if mode == COMPLETE else 1


def needs_no_data_batch(query: QueryWatermark, mode: int) -> int:
    """Tell whether a batch follows though no data came: 1 if so.

    Parameters
    ----------
    query : QueryWatermark
        After :func:`end_batch`.
    mode : int
        Only a batch that evicts has anything to do without data (``shouldRunAnotherBatch``).
    """
    return 1 if query.has_plan == 1 and evicts(mode) == 1 and query.current > query.used else 0
