"""What writes to one result partition on the live clock, and which rows go where in a round."""

from __future__ import annotations

from dataclasses import dataclass, field

from flowcontrol.job.routing import Router
from flowcontrol.operators.states import RecordWriter
from flowcontrol.protocol.sides import Partition


@dataclass(slots=True, kw_only=True)
class Output(RecordWriter):
    """A writer with its partition, the router of its records, and what it did in a round."""

    partition: Partition
    """The partition; its pool is the writer's."""
    router: Router
    """Chooses the channel of each record."""
    pending: list[int]
    """Queue of the channels of records that are routed and not written."""
    routes: list[int] = field(default_factory=list)
    """Channel of each record put out in the round, in order."""
    parents: list[int] = field(default_factory=list)
    """Which of the records taken up in the round each of them is made of."""
