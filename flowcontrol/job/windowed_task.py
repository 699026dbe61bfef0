"""What a subtask has of windows, as :mod:`flowcontrol.operators.windowing` asks for it."""

from dataclasses import dataclass, field
from typing import NamedTuple, cast

from flowcontrol.job.batch_control import BatchedTask
from flowcontrol.job.batch_settings import has_batches, new_operators, new_store
from flowcontrol.job.routing import Output
from flowcontrol.job.timed_task import TimedTask
from flowcontrol.job.window_settings import (
    LinkKeys,
    link_keys,
    new_window_settings,
    new_window_task,
    window_plan_of,
)
from flowcontrol.operators import windowing as w
from flowcontrol.operators.window_states import WindowTask
from flowcontrol.operators.windowed_worker import WindowedWorker
from flowcontrol.protocol.event_time.stamps import id_of
from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.spark_time.watermarks import WatermarkOperator
from flowcontrol.protocol.windows.keeping import grow, new_windows
from flowcontrol.protocol.windows.keys import key_of
from flowcontrol.protocol.windows.states import Windows

_FIRST_ENTRIES = 16


class Result(NamedTuple):
    """A result of a window.

    Attributes
    ----------
    key : int
        Number of the key, from 0.
    start, end : int
        First millisecond of the window, and the one behind its last.
    records : int
        Records in it.
    round : int
        When it was put out.
    """

    key: int
    start: int
    end: int
    records: int
    round: int


@dataclass(slots=True)
class WindowRows:
    """The rows that the rules of windows work on, of one subtask.

    Attributes
    ----------
    held : WindowTask
        What it holds besides the windows.
    windows : Windows
        Its windows.
    firsts : list of list of int
        First id of each key of the records of each gate; empty: keys are alike.
    operators : list of WatermarkOperator
        Of Spark's windows: what it has seen of each gate.
    results : list of Result
        What it put out in the round.
    """

    held: WindowTask
    windows: Windows
    firsts: list[list[int]]
    operators: list[WatermarkOperator]
    results: list[Result] = field(default_factory=list)


class WindowedTask(TimedTask):
    """The side of a subtask that the rules of windows see: a ``WindowedWorker``.

    Attributes
    ----------
    window : WindowRows or None
        None: its stage has no window.
    """

    outputs: list[Output]

    def _prepare_windows(self) -> None:
        """Make the rows of a subtask; find out which outputs route by the key of a record."""
        self.window: WindowRows | None = None
        self._keys_of_outputs = [link_keys(self.job, link) for link in self.plan.outputs]
        window = window_plan_of(self.job, self.plan)
        if window is None:
            return
        self.task.has_window = 1
        into = [link_keys(self.job, link) for link in self.plan.inputs]
        firsts = [[] if keys is None else keys.firsts.tolist() for keys in into]
        settings = new_window_settings(window, is_batched=has_batches(self.job.scenario))
        windows = new_windows(settings, _FIRST_ENTRIES)._replace(store=new_store(self.job))
        held = new_window_task(self.job, self.plan, window)
        self.window = WindowRows(held, windows, firsts, new_operators(self.job, self.plan))

    @property
    def _window(self) -> WindowRows:
        assert self.window is not None
        return self.window

    def _channel_by_key(self, writer: Output) -> int | None:
        """Return the channel of the record in hand; None where its key does not decide."""
        if not any(self._keys_of_outputs):
            return None
        number = next(i for i, own in enumerate(self.partitions) if own is writer.partition)
        keys = self._keys_of_outputs[number]
        return None if keys is None or not keys.routes else channel_of(keys, self.task.stamp)

    # ------------------------------------------------------------------ as a WindowedWorker

    def window_task(self) -> WindowTask:
        """Return what it holds of its windows besides them."""
        return self._window.held

    def windows(self) -> Windows:
        """Return its windows."""
        return self._window.windows

    def watermark_operators(self) -> list[WatermarkOperator]:
        """Return what it has seen of each of its inputs."""
        return self._window.operators

    def batched(self) -> BatchedTask:
        """Return what the driver of its windows' query reads and changes."""
        rows = self._window
        valve = self._times.state.valve
        return BatchedTask(self.task, rows.held, rows.windows.store, rows.operators, valve)

    def _may_end_batches(self) -> bool:
        """Whether it may end as far as batches go that answer what it has taken up."""
        return self.window is None or w.may_end_batches(self.window.held, self.task) == 1

    def first_ids(self, gate: int) -> Row:
        """Return the first id of each key of the records of a gate."""
        return self._window.firsts[gate]

    def make_room(self) -> None:
        """Make room for twice as many windows, and for those of one record."""
        windows = self._window.windows
        grow(windows, 2 * len(windows.entries) + windows.settings.overlap)

    def note_result(self) -> None:
        """Note the result that the windows' store has."""
        store = self._window.windows.store
        window = store.result_key, store.result_start, store.result_end
        self._window.results.append(Result(*window, store.result_count, self._round))

    def take_element(self, may_write: int) -> None:
        """Put the record that has been taken up into its windows, and put out what that causes."""
        w.take_element(self._windowed, self.task, may_write)

    def fire_next(self, may_write: int) -> int:
        """Go on with a burst of results: 0 if it is over."""
        return w.fire_next(self._windowed, self.task, may_write)

    def hear_valve(self, done: int) -> None:
        """Take what the valve has given out."""
        w.hear_valve(self._windowed, self.task, done)

    def _look_at_clock(self, start: int, end: int) -> None:
        """Begin a burst if timers of processing time are due."""
        w.look_at_clock(self._windowed, self.task, start, end)

    @property
    def _windowed(self) -> WindowedWorker[Output]:
        """Itself: a subtask has the rest of a worker."""
        return cast(WindowedWorker[Output], self)


def channel_of(keys: LinkKeys, stamp: int) -> int:
    """Return the channel of a record that is routed by its key."""
    firsts = cast("Row", keys.firsts)
    return int(keys.owners[key_of(id_of(stamp), keys.keys, firsts)])
