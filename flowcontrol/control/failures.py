"""Failures and restarts between rounds: what dies, what is cancelled, what begins again.

It runs at the start of a round, behind the coordinator of checkpoints, on both clocks. A moment
within a round counts from the next round on, and a message takes the network's latency, at least a
round. Everything follows Flink's order: the failure is noticed and counted, the tasks of the
regions are cancelled, pending checkpoints aborted; when the strategy's delay is over and all are
cancelled, the latest completed checkpoint is restored; when the last task has its state, all begin.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowcontrol.control.attempts import KernelAttempts
from flowcontrol.control.checkpoints import CheckpointControl
from flowcontrol.control.task_orders import Restart, TaskOrder
from flowcontrol.kernel.reports import NO_ROUND
from flowcontrol.layout.fault_tolerance import Failover, death_seen_us
from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.requests import STOP_SAVEPOINT
from flowcontrol.protocol.control.plane import durations
from flowcontrol.protocol.restarts import restored_us
from flowcontrol.state.declared import Kept

TOO_MANY_CHECKPOINTS: Final = "too many checkpoints"
"""Cause of a failure that the coordinator of checkpoints asks for."""

FAILED_STOP: Final = "the stop with savepoint"
"""The same if the savepoint with which the job was to stop has expired or was declined."""

LOOK_US: Final = 10_000
"""How often a job that catches up is looked at, microseconds."""

DETECT, CANCEL, BEGIN, RUN, CATCH_UP, FAIL = range(6)
"""Steps of the agenda, in the order in which those of one round are taken."""


class Watcher:
    """Somebody who is told of what happens to tasks, at the start of the round; it may not care."""

    def stopped(self, number: int, tasks: Sequence[int]) -> None:
        """Note that tasks do nothing from a round on."""

    def leader_died(self, number: int) -> None:
        """Note that the JobManager dies."""

    def restarting(
        self, number: int, restart: Restart, keeps: Sequence[int], attempts: KernelAttempts
    ) -> None:
        """Note that tasks are about to begin anew, but for the sources that cannot rewind."""


@dataclass
class _Event:
    """A failure of which the JobMaster may not know yet; ``sources`` as they were when it came."""

    causes: list[str]
    failed_us: int
    failed: int
    victims: list[int]
    sources: dict[int, tuple[int, int]]
    in_flight: int = 0
    is_leader: bool = False
    is_process: bool = False
    is_noticed: bool = False


class FailureControl(Kept):
    """What fails in a run, and the restarts.

    - ``checkpoints``: its coordinator, if it has checkpoints.
    - ``restarts``: what has failed so far, in the order in which it was noticed.
    - ``failed_at``: round in which the job failed for good; -1: it did not.
    - ``message``: why it did.
    - ``watcher``: who is told of what happens to the tasks.

    Raises ValueError if nothing can fail in the job.
    """

    _kept = (
        *("restarts", "failed_at", "message", "_events", "_agenda", "_deployed", "_restoring"),
        *("_strategy", "_has_leader", "_checkpoints_failed_at"),
    )
    _values = (Restart, _Event)

    def __init__(
        self, job: Job, attempts: KernelAttempts, checkpoints: CheckpointControl | None = None
    ) -> None:
        if job.faults is None:
            raise ValueError(f"{job.scenario.name!r} has nothing that fails")
        self.restarts: list[Restart] = []
        self.failed_at, self.message = -1, ""
        self.watcher = Watcher()
        self._now, self._name = 0, job.scenario.name
        self._attempts, self._checkpoints, self._faults = attempts, checkpoints, job.faults
        self._failover, self._round_us = Failover(job), job.round_us
        self._latency = job.latency
        self._durations = durations(job.scenario.cluster.control_latency_us)
        self._strategy = self._faults.new_strategy()
        self._events: list[_Event] = []
        self._deployed, self._restoring = set(range(self._failover.count)), set[int]()
        self._has_leader, self._checkpoints_failed_at = True, -1
        self._agenda = [
            (-(-failure.at_us // job.round_us), FAIL, index)
            for index, failure in enumerate(self._faults.failures)
        ]

    # ------------------------------------------------------------------ when

    def next_round(self) -> int:
        """Return the round before which :meth:`before_round` must be called; NO_ROUND: none.

        It must be called besides before the round in which the coordinator fails the job.
        """
        return min(self._agenda)[0] if self._agenda else NO_ROUND

    def is_due(self, number: int) -> bool:
        """Tell whether :meth:`before_round` has anything to do before a round."""
        own = self._checkpoints
        has_failed = own is not None and own.failed_at > self._checkpoints_failed_at
        return has_failed or self.next_round() <= number

    def before_round(self, number: int) -> list[TaskOrder]:
        """Do what is due by the start of a round; the coordinator has done its part.

        ``number``: the round that is about to run: each one, or at least those of
        :meth:`next_round`.
        """
        own, self._now = self._checkpoints, number
        if own is not None and own.failed_at > self._checkpoints_failed_at:
            self._checkpoints_failed_at = own.failed_at
            self._fail_job(number)
        while self._agenda and min(self._agenda)[0] <= number:
            step = min(self._agenda)
            self._agenda.remove(step)
            _, kind, index = step
            if kind == FAIL:
                self._fail(number, index)
            elif kind == DETECT:
                self._detect(number, self._events[index])
            elif not self.restarts[index].is_superseded:
                _STEPS[kind](self, number, self.restarts[index])
        return [] if own is None else own.orders(number)

    def is_deployed(self, task: int) -> bool:
        """Tell whether a task runs, or has finished in the present attempt."""
        return task in self._deployed and task not in self._restoring

    def failed_job(self) -> tuple[dict[str, Any], ...]:
        """Return the job, as ``run.json`` has it, if it failed for good."""
        if self.failed_at < 0:
            return ()
        found = {
            "name": self._name,
            "start_at_s": 0.0,
            "stop_at_s": self.failed_at * self._round_us / 1e6,
            "state": "failed",
            "message": self.message,
        }
        return (found,)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table ``restarts``; what nobody has noticed yet comes last."""
        unseen = [one for one in self._events if not one.is_noticed]
        count = len(self.restarts)
        late = [
            Restart(number, one.causes, one.failed_us, one.failed)
            for number, one in enumerate(unseen, count + 1)
        ]
        return [one.row(self._round_us) for one in (*self.restarts, *late)]

    # ------------------------------------------------------------------ what fails

    def _is_live(self, task: int) -> bool:
        if task in self._restoring:
            return True
        return task in self._deployed and not self._attempts.is_finished(task)

    def _fail(self, number: int, index: int) -> None:
        """Have something fail; nothing happens if nothing of it runs."""
        failure = self._faults.failures[index]
        victims = [task for task in self._failover.victims(failure) if self._is_live(task)]
        if failure.job_manager:
            self._fail_leader(number, failure.at_us, failure.victim)
        elif victims:
            is_broken = failure.task_manager is not None and self._failover.breaks_connection(
                failure.task_manager, lambda task: self.is_deployed(task) and self._is_live(task)
            )
            seen = number + self._latency  # the report of the task, or of a receiver of it
            if failure.task_manager is not None and not is_broken:
                seen = max(seen, self._given_up(number))
            is_process = failure.task_manager is not None
            self._note(number, failure.at_us, failure.victim, victims, seen, is_process=is_process)
            self._stop(victims)

    def _fail_leader(self, number: int, failed_us: int, cause: str) -> None:
        """Have the JobManager die: what is under way to it is lost, and so is every restart."""
        going = [one for one in self.restarts if one.running < 0 and not one.is_superseded]
        if self.failed_at >= 0 or any(one.is_final for one in going):
            return
        everyone = range(self._failover.count)
        if not going and not any(map(self._is_live, everyone)):
            return
        for one in going:
            one.is_superseded = True
        self._has_leader = False
        if self._checkpoints is not None:
            self._checkpoints.lose(number)
        self.watcher.leader_died(number)
        self._stop(self._restoring)
        self._note(number, failed_us, cause, list(everyone), self._given_up(number), is_leader=True)

    def _fail_job(self, number: int) -> None:
        """Have the job fail since too many checkpoints did, or the one to stop with."""
        tasks = list(range(self._failover.count))
        if not any(map(self._is_live, tasks)):
            return
        cause = FAILED_STOP if self._has_stop_failed() else TOO_MANY_CHECKPOINTS
        self._note(number, number * self._round_us, cause, tasks, number)

    def _has_stop_failed(self) -> bool:
        """Whether a savepoint with which the job was to stop has ended as the job was failed.

        Nothing else is pending beside it, so it is what failed.
        """
        if self._checkpoints is None:
            return False
        own, ended = self._checkpoints.coordinator, self._checkpoints_failed_at * self._round_us
        found = (own.statistics(id) for id in own.ids)
        return any(one.kind == STOP_SAVEPOINT and one.ended == ended for one in found)

    def _given_up(self, number: int) -> int:
        """Return the round in which a process that dies now is given up."""
        us = death_seen_us(number * self._round_us, self._faults.heartbeat)
        return max(number + 1, -(-us // self._round_us))

    def _note(
        self,
        number: int,
        failed_us: int,
        cause: str,
        victims: list[int],
        seen: int,
        *,
        is_leader: bool = False,
        is_process: bool = False,
    ) -> None:
        sources = {task: self._attempts.source(task) for task in self._failover.sources}
        waiting = self._attempts.in_flight()
        event = _Event([cause], failed_us, number, victims, sources, waiting, is_leader, is_process)
        self._agenda.append((seen, DETECT, len(self._events)))
        self._events.append(event)

    def _stop(self, tasks: Iterable[int]) -> None:
        """Have tasks stop that are deployed."""
        own = sorted(self._deployed.intersection(tasks))
        running = [task for task in own if task not in self._restoring]
        self._attempts.stop(running)
        self.watcher.stopped(self._now, running)
        self._deployed.difference_update(own)
        self._restoring.difference_update(own)

    # ------------------------------------------------------------------ what follows

    def _detect(self, number: int, event: _Event) -> None:
        """Have the JobMaster learn of a failure: count it, and cancel what has to restart."""
        if event.is_noticed or not (self._has_leader or event.is_leader):
            return  # cancelled for another failure, or nobody there: the next leader begins anew
        if event.is_leader:
            self._has_leader, self._strategy = True, self._faults.new_strategy()
        victims = event.victims
        if self._checkpoints is not None and self._checkpoints.is_stopping:
            # "Stop-with-savepoint failed": who waits for it fails too, in whatever region.
            victims = list(range(self._failover.count))
        tasks = self._failover.restarted(victims)
        joined = [
            one for one in self._events if not one.is_noticed and set(one.victims) & set(tasks)
        ]
        for one in joined:
            one.is_noticed = True
        causes = [cause for one in joined for cause in one.causes]
        new = Restart(len(self.restarts) + 1, causes, joined[0].failed_us, joined[0].failed)
        new.detected, new.tasks, new.in_flight = number, tasks, joined[0].in_flight
        new.deployment_us = self._deployment_us(event, joined)
        new.sources = {task: joined[0].sources[task] for task in tasks if task in event.sources}
        for earlier in self.restarts:
            if set(earlier.tasks) & set(tasks) and earlier.caught_up < 0:
                earlier.give_up(tasks)
        delay_us = 0 if event.is_leader else self._delay_us(number, new)
        if self._checkpoints is not None:
            self._checkpoints.fail(number, victims)
        index = len(self.restarts)
        self.restarts.append(new)
        is_any = any(map(self._is_live, new.tasks))
        cancelled = number + 2 * self._latency * is_any
        self._agenda.append((number + self._latency * is_any, CANCEL, index))
        if not new.is_final:
            after = -(-(number * self._round_us + delay_us) // self._round_us)
            self._agenda.append((max(after, cancelled), BEGIN, index))

    def _deployment_us(self, event: _Event, joined: Sequence[_Event]) -> int:
        """Return what it takes until all tasks are deployed again, by what has failed."""
        if event.is_leader:
            return self._durations.new_master
        if any(one.is_process for one in joined):
            return self._durations.without_slots
        return self._durations.with_slots

    def _delay_us(self, number: int, new: Restart) -> int:
        """Count a failure; return how long the restart waits, or let it be the last one."""
        now_ms = number * self._round_us // 1000
        self._strategy.fail(now_ms)
        if self._strategy.can_restart(now_ms):
            return self._strategy.delay(now_ms) * 1000
        new.is_final, new.tasks = True, list(range(self._failover.count))
        name = self._faults.policy.name
        at_s = new.failed_us / 1e6
        self.message = (
            f"{new.cause} failed at {at_s:g} s: restart-strategy {name} allows no restart"
        )
        for one in self.restarts:
            one.is_superseded |= one.running < 0
        return 0

    def _cancel(self, number: int, own: Restart) -> None:
        """Have the tasks stop that still run."""
        self._stop(own.tasks)
        if own.is_final:
            self.failed_at = number

    def _begin(self, number: int, own: Restart) -> None:
        """Begin to restore the latest completed checkpoint."""
        own.restarted = number
        sizes = dict.fromkeys(own.tasks, (0, 0))
        if self._checkpoints is not None:
            own.checkpoint = self._checkpoints.coordinator.latest_completed
            sizes = self._checkpoints.restored_bytes(own.checkpoint, own.tasks)
        self._deployed.update(own.tasks)
        self._restoring.update(own.tasks)
        ends = [
            whole
            for nbytes in self._failover.by_manager(sizes)
            for _, whole in restored_us(
                number * self._round_us + own.deployment_us,
                nbytes,
                self._faults.restore_bytes_per_s,
            ).values()
        ]
        running = -(-max(ends) // self._round_us)
        self._agenda.append((running, RUN, own.number - 1))

    def _run(self, number: int, own: Restart) -> None:
        """Have all tasks begin from what was restored."""
        own.running, rewinds = number, self._failover.sources
        keeps = [task for task in own.tasks if not rewinds.get(task, True)]
        own.sources = {  # a source that did not fail has emitted until it was cancelled
            task: (self._attempts.source(task)[0], lag) for task, (_, lag) in own.sources.items()
        }
        own.reprocessed = sum(
            max(0, position - self._attempts.position(task, own.checkpoint))
            for task, (position, _) in own.sources.items()
            if task not in keeps
        )
        dead = [task for task in own.tasks if task not in self._deployed]
        self.watcher.restarting(number, own, keeps, self._attempts)
        self._attempts.start(own.tasks, own.checkpoint, keeps)
        self._attempts.stop(dead)  # it died while it was restored, and nobody knows yet
        self.watcher.stopped(number, dead)
        self._restoring.difference_update(own.tasks)
        if self._checkpoints is not None:
            begun = max(one.restarted for one in self.restarts)
            self._checkpoints.recover(number, own.tasks, begun)
        self._catch_up(number, own)

    def _catch_up(self, number: int, own: Restart) -> None:
        """Look whether no more records wait, at sources and in channels, than at the failure.

        What waits at sources shrinks by no more than they emit; what is in the channels is looked
        at every LOOK_US.
        """
        missing = most = 0
        for task, (position, lag) in own.sources.items():
            now, waiting = self._attempts.source(task)
            if lag >= 0:
                missing += waiting - lag
            elif self._failover.sources[task]:
                missing += max(0, position - now)
            most += self._attempts.most_emitted(task)
        missing -= own.in_flight
        if missing + self._attempts.in_flight() <= 0:
            own.caught_up = number
            return
        rounds = max(1, LOOK_US // self._round_us)
        if most > 0:
            rounds = max(rounds, missing // most)
        self._agenda.append((number + rounds, CATCH_UP, own.number - 1))


_STEPS = {
    CANCEL: FailureControl._cancel,
    BEGIN: FailureControl._begin,
    RUN: FailureControl._run,
    CATCH_UP: FailureControl._catch_up,
}
