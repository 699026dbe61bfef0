"""How long a job takes to start, and to be deployed again: the control plane, played through."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from flowcontrol.protocol.control.calls import ControlTask
from flowcontrol.protocol.control.plane import ControlPlane
from flowcontrol.protocol.control.states import TaskStatus

PATIENCE = 120_000_000
"""How long a process that comes back may take to register here, microseconds: it has done so
before its job restarts."""

MOST_LATENCY = 1_000_000
"""Most that a call may take, microseconds."""


@dataclass(frozen=True, slots=True)
class Durations:
    """What a latency of every call costs, microseconds.

    Attributes
    ----------
    start : int
        From the start of task managers and job until all tasks run.
    with_slots : int
        From a restart until tasks run whose slots the JobMaster still has.
    without_slots : int
        The same where slots have to be asked for: their process died, another one has registered.
    new_master : int
        From the leadership of a new JobMaster until tasks run in the slots that wait for it.
    """

    start: int = 0
    with_slots: int = 0
    without_slots: int = 0
    new_master: int = 0


@cache
def durations(latency: int) -> Durations:
    """Return what a latency of every call costs a job.

    Parameters
    ----------
    latency : int
        Of a call, and of its answer, microseconds. 0: nothing takes any time.

    Returns
    -------
    Durations
        The same for jobs of any size, since calls to many at once take no longer than one.

    Raises
    ------
    ValueError
        If it is out of range: far above a second no JobMaster confirms a slot in time, which then
        is given up and asked for again, for ever.
    """
    if not 0 <= latency <= MOST_LATENCY:
        raise ValueError(f"latency is {latency} us: needs 0 to {MOST_LATENCY}")
    if latency == 0:
        return Durations()
    again = [_again(latency, what) for what in (_fail, _die, ControlPlane.lead_job)]
    return Durations(_deployed(latency).now, *again)


def _deployed(latency: int) -> ControlPlane:
    """Return the control plane of a task as it begins to run."""
    task = ControlTask("task", 0, 0, 0, is_source=True)
    plane = ControlPlane([task], latency)
    plane.lead_resources()
    plane.start_executor(task.executor)
    plane.submit()
    return _run(plane)


def _run(plane: ControlPlane) -> ControlPlane:
    while not plane.is_running():
        plane.step()
    return plane


def _again(latency: int, what: Callable[[ControlPlane], object]) -> int:
    """Return how long after something has happened to it the task runs again."""
    plane = _deployed(latency)
    plane.run(plane.now + latency)
    what(plane)
    begun = plane.now
    if plane.master.restarting():
        plane.do(plane.master.restart(begun, [0]))
    return _run(plane).now - begun


def _fail(plane: ControlPlane) -> None:
    (own,) = plane.executors.values()
    plane.do(own.end((0, 0), TaskStatus.FAILED))
    plane.run(plane.now + plane.latency)


def _die(plane: ControlPlane) -> None:
    name = plane.tasks[0].executor
    plane.kill_executor(name)
    plane.do(plane.master.lose(plane.now, name))
    plane.run(plane.now + plane.latency)
    plane.start_executor(name)
    plane.run(plane.now + PATIENCE)
