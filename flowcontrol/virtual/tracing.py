"""The messages of a run on the virtual clock: the kernel again, stopped after every round."""

from flowcontrol.job import Job
from flowcontrol.job.message_table import Window, first_round, messages_of
from flowcontrol.job.messages import Message
from flowcontrol.job.replay import Replayed
from flowcontrol.virtual.running import step


def record(job: Job, window: Window, replayed: Replayed | None = None) -> list[Message]:
    """Run a job again up to the end of a window; return the messages of that.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    window : Window
        What is to be written down.
    replayed : Replayed, optional
        What its sources replay; by default it is read.

    Raises
    ------
    RunError
        As :func:`flowcontrol.virtual.running.step`.
    """
    states = step(job, replayed, first_round(job, window))
    return list(messages_of(job, window, states))
