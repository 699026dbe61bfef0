"""The subtasks of a sink that restart together: a rebalance deals rows out to others of them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flowcontrol.job.delivery_settings import SinkSubtask, sink_subtasks
from flowcontrol.job.delivery_sink import SinkAccount
from flowcontrol.job.failover import Failover
from flowcontrol.job.job import Job
from flowcontrol.protocol.commits.restored import Returning, restore_together
from flowcontrol.protocol.commits.settled import SettledRows


class Restarted(NamedTuple):
    """What a restart finds and leaves of one subtask of a sink; as JSON takes it.

    Attributes
    ----------
    taken : int
        Records that its task had taken up in the end.
    in_flight, early, stored : int
        Rows that were on their way to it; those before the checkpoint that come again; those that
        the checkpoint holds in flight.
    again : int or None
        Other rows since the checkpoint that come again; None: all of them.
    source_stays : bool
        The task is a source that goes on where it was.
    """

    taken: int
    in_flight: int
    early: int
    stored: int
    again: int | None
    source_stays: bool


class SinkGroup:
    """The subtasks of one sink in one pipelined region, which restart together.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    subtasks : mapping of int to SinkSubtask
        Which, by their places among the sinks' subtasks of the job, in their order.

    Attributes
    ----------
    places : list of int
        Those places.
    sinks : list of SinkAccount
        Their accounts, which share what is settled.
    stage : str
        Name of the sink.
    tasks : list of int
        Where they are.
    """

    def __init__(self, job: Job, subtasks: Mapping[int, SinkSubtask]) -> None:
        settled, self._round_us = SettledRows(), job.round_us
        self.places = list(subtasks)
        self.sinks = [SinkAccount(job, one, settled) for one in subtasks.values()]
        self.stage, self.tasks = self.sinks[0].stage, [sink.task for sink in self.sinks]

    def restart(self, number: int, checkpoint: int, found: Sequence[Sequence[int | None]]) -> None:
        """Note that the tasks begin anew in a round.

        Parameters
        ----------
        number : int
            The round.
        checkpoint : int
            What is restored; -1: nothing, they begin at the beginning.
        found : sequence of Restarted
            What is known of each.
        """
        parts = [Restarted(*one) for one in found]  # type: ignore[arg-type]
        have_work = [
            (sink, one)
            for sink, one in zip(self.sinks, parts, strict=True)
            if sink.stop(number, checkpoint, one.taken)
        ]
        if not have_work:
            return  # they had finished before, and have nothing to do again
        restore_together(
            number * self._round_us,
            None if checkpoint < 0 else checkpoint,
            [
                (sink.account, Returning(one.in_flight, one.early, one.stored, one.again))
                for sink, one in have_work
            ],
        )
        for sink, one in have_work:
            sink.resume(number, checkpoint, one.source_stays)


def sink_groups(job: Job) -> list[SinkGroup]:
    """Return the groups of all sinks, in the order of their first subtasks in the job.

    A sink of a job in which nothing fails is one group.
    """
    regions = None if job.faults is None else Failover(job).regions
    groups: dict[tuple[str, int], dict[int, SinkSubtask]] = {}
    for place, one in enumerate(sink_subtasks(job)):
        region = 0 if regions is None else regions[one.task]
        groups.setdefault((one.member.stage.name, region), {})[place] = one
    return [SinkGroup(job, subtasks) for subtasks in groups.values()]
