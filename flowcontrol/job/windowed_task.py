"""What a subtask has of windows, as :mod:`flowcontrol.operators.windowing` asks for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, cast

from flowcontrol.job.batch_control import BatchedTask
from flowcontrol.job.batch_settings import has_batches, new_operators, new_store
from flowcontrol.job.exchanged import Work
from flowcontrol.job.routing import Output
from flowcontrol.job.row_keys import ONE_KEY, RowKeys, row_of
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
from flowcontrol.protocol.event_time.bounds import MIN_TIME
from flowcontrol.protocol.event_time.stamps import id_of
from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.spark_time.watermarks import WatermarkOperator
from flowcontrol.protocol.state import values_of
from flowcontrol.protocol.windows.keeping import further_of, grow, new_windows, windows_of
from flowcontrol.protocol.windows.keys import key_of
from flowcontrol.protocol.windows.states import NONE, Windows

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
    valued : int
        The records that have a value; made ones have the value 1.
    sum, min, max : int
        Of these values, in units.
    wraps : int
        How often the sum has left 64 bits.
    further : tuple of int
        Of each column beside the first the last five, one column behind the other.
    """

    key: int
    start: int
    end: int
    records: int
    round: int
    valued: int
    sum: int
    min: int
    max: int
    wraps: int
    further: tuple[int, ...] = ()


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
    numbers : list of Row
        Key of each id of the records of each gate; empty: they are made.
    values : Row
        Value of each id in the first column; empty: records are counted alone.
    operators : list of WatermarkOperator
        Of Spark's windows: what it has seen of each gate.
    results : list of Result
        What it put out in the round.
    sources : list of int
        Of each of them, which record it had taken up last: how many it has taken up so far.
    late : list of int
        Records that came too late for every window in the round, numbered likewise.
    kept_in : int
        Where processes share no memory: round in which its windows were kept last; -1: never.
    born : int
        There, when the source emitted the record that it took up last: the round.
    carried : (int, int)
        There, late records and results of earlier attempts that this one has not counted.
    """

    held: WindowTask
    windows: Windows
    firsts: list[list[int]]
    numbers: list[Row]
    values: Row
    operators: list[WatermarkOperator]
    results: list[Result] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    kept_in: int = -1
    born: int = 0
    carried: tuple[int, int] = (0, 0)

    def carry_on(self, before: "WindowRows") -> None:
        """Have counters of results go on, those of a fresh subtask behind an earlier attempt's."""
        own, old = self.windows.store, before.windows.store
        late, fired = before.carried
        self.carried = late + old.late - own.late, fired + old.fired - own.fired

    def begin_round(self) -> None:
        """Forget what it put out, and what came late, in the round before."""
        self.results.clear()
        self.sources.clear()
        self.late.clear()


class WindowedTask(TimedTask):
    """The side of a subtask that the rules of windows see: a ``WindowedWorker``.

    Attributes
    ----------
    window : WindowRows or None
        None: its stage has no window.
    """

    outputs: list[Output]
    work: Work

    def _prepare_windows(self, rows: RowKeys) -> None:
        """Make the rows of a subtask; find out which outputs route by the key of a record."""
        self.window: WindowRows | None = None
        self._keys_of_outputs = [link_keys(self.job, link, rows) for link in self.plan.outputs]
        window = window_plan_of(self.job, self.plan)
        if window is None:
            return
        self.task.has_window = 1
        into = [link_keys(self.job, link, rows) for link in self.plan.inputs]
        firsts = [[] if keys is None else keys.firsts.tolist() for keys in into]
        numbers = [row_of(None if keys is None else keys.numbers) for keys in into]
        columns = rows.columns_of(self.plan.name)
        settings = new_window_settings(
            window, is_batched=has_batches(self.job.scenario), further=columns.further
        )
        windows = new_windows(settings, _FIRST_ENTRIES, row_of(columns.table))
        windows = windows._replace(store=new_store(self.job))
        keys = len(rows.names.get(self.plan.name, (ONE_KEY,)))
        held = new_window_task(self.job, self.plan, window, keys)
        values = row_of(columns.first)
        operators = new_operators(self.job, self.plan)
        self.window = WindowRows(held, windows, firsts, numbers, values, operators)

    def _forget_results(self) -> None:
        """Begin a round, in which no result has been put out yet."""
        if self.window is not None:
            self.window.begin_round()

    def begin_windows(self, state: Mapping[str, Any]) -> None:
        """Go on with the windows of a checkpoint.

        Notes
        -----
        A watermark is in no checkpoint: the operator's begins anew, as its valve does.
        """
        own = self._window
        before = own.windows
        own.windows = windows_of(before.settings, state, _FIRST_ENTRIES, before.table)
        own.windows.store.watermark = MIN_TIME

    @property
    def _window(self) -> WindowRows:
        assert self.window is not None
        return self.window

    def _made_of(self) -> int:
        """Return how many rows there are so far of which outputs of the round are made.

        Rows that were taken up; of a task with windows its results.
        """
        return (
            self.task.taken - self.work.first if self.window is None else len(self.window.results)
        )

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

    def window_bytes(self) -> int:
        """Return the size of its open windows, bytes; 0 of a task without."""
        if self.window is None:
            return 0
        return self.window.windows.store.open * self.window.held.bytes_per_key

    def keys_of_ids(self, gate: int) -> Row:
        """Return the key of each id of the records of a gate; empty: they are made."""
        return self._window.numbers[gate]

    def values_of_ids(self) -> Row:
        """Return the value of each id in the first column; empty: records are counted alone."""
        return self._window.values

    def make_room(self) -> None:
        """Make room for twice as many windows, and for those of one record."""
        windows = self._window.windows
        grow(windows, 2 * len(windows.entries) + windows.settings.overlap)

    def note_result(self) -> None:
        """Note the result that the windows' store has."""
        windows = self._window.windows
        store, further = windows.store, map(values_of, further_of(windows, NONE))
        window = store.result_key, store.result_start, store.result_end
        values = store.result_sum, store.result_min, store.result_max, store.result_wraps
        found = Result(
            *window,
            store.result_count,
            self._round,
            store.result_valued,
            *values,
            tuple(chain.from_iterable(further)),
        )
        self._window.results.append(found)
        self._window.sources.append(self.task.taken)

    def take_element(self, may_write: int) -> None:
        """Put the record that has been taken up into its windows, and put out what that causes."""
        store = self._window.windows.store
        before = store.late
        w.take_element(self._windowed, self.task, may_write)
        if store.late > before:
            self._window.late.append(self.task.taken)

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
