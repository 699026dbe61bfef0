"""The kinds of operators: a state each, and how many outputs a record has."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias, cast

from flowcontrol.protocol.event_time import bytes_of_mark, channel_of_mark, is_pending_mark
from flowcontrol.protocol.network.rounds import stays_blocked
from flowcontrol.protocol.service import ratio_of
from flowcontrol.state.rows import FIFO_COUNT, FIFO_HEAD, FIFO_SLOTS, fifo_pop, fifo_push
from flowcontrol.state.tasks import READER, SERVER, TASK_INPUT, Operator, StreamTask, Worker

# --- Selectivity: of every record so many go on, a fixed ratio in the long run


SELECTIVITY: Final = 0


@dataclass(slots=True)
class Selectivity(Operator):
    """A map, a filter or a flat map: after n records, n x ratio are out, rounded down."""

    kind: int = SELECTIVITY
    numerator: int = 1
    """Of the ratio, constant; numerator x denominator is at most ``service.MOST``."""
    denominator: int = 1
    """Of the ratio, constant."""
    remainder: int = 0
    """What the records so far leave over of an output, parts of the denominator."""

    @property
    def ratio(self) -> Fraction:
        """Records out per record in, in the long run."""
        return Fraction(self.numerator, self.denominator)

    @property
    def most_outputs(self) -> int:
        """Records that one record yields at the most, at least 1."""
        return max(1, -(-self.numerator // self.denominator))


def of_ratio(value: Fraction) -> Selectivity | None:
    """Return the operator of a stated ratio, None if it passes every record on."""
    ratio = ratio_of(value)
    if ratio == 1:
        return None
    return Selectivity(numerator=ratio.numerator, denominator=ratio.denominator)


def on_selected(state: Selectivity, count: int) -> int:
    """Take ``count`` records; return how many outputs are due now.

    The outputs of n records are floor(n x ratio), however the n come. Whole multiples of the
    denominator come first, so that no product is more than what is returned.
    """
    denominator = state.denominator
    whole = 0 if count < denominator else count // denominator
    rest = (count - whole * denominator) * state.numerator + state.remainder
    more = 0 if rest < denominator else 1
    if rest >= 2 * denominator:  # most often there is nothing to divide
        more = rest // denominator
    state.remainder = rest - more * denominator
    return whole * state.numerator + more


# --- Windows: what a record causes depends on those before it, on the watermark and on the clock.
#
# The operator itself counts, as any operator does. Its windows are beside the task
# (flowcontrol.state.windows.Windows), and windowing has them fire: one result at a time, so
# on_records says that none is due.


WINDOW: Final = 1


@dataclass(slots=True)
class Window(Operator):
    """A window operator, the first of its task's chain."""

    kind: int = WINDOW
    numerator: int = 1
    """Of results per record in the long run, constant; an estimate."""
    denominator: int = 1
    """Of the same, constant."""

    @property
    def ratio(self) -> Fraction:
        """Results per record in the long run: an estimate from rate, keys and sizes."""
        return Fraction(self.numerator, self.denominator)

    @property
    def most_outputs(self) -> int:
        """Results that are put out at once: each when there is room for it."""
        return 1


def windows_of_ratio(ratio: Fraction) -> Window:
    """Return the operator of a window with a ratio in the long run."""
    return Window(numerator=ratio.numerator, denominator=ratio.denominator)


# --- Every kind of operator: a state, made of what a stage says, and rules that both clocks run.
#
# A new one is a file beside operators and its lines here. Its state has `ratio`, the records
# out per record in of a long run, and `most_outputs`, those of one record at the most: by
# them rates, limits and queues are worked out before a run.


AnyOperator: TypeAlias = Selectivity | Window
"""An operator of any kind."""

OPERATORS: dict[int, type[AnyOperator]] = {SELECTIVITY: Selectivity, WINDOW: Window}
"""The state of each kind of operator."""


def operators_of(ratio: Fraction, window_ratio: Fraction | None = None) -> list[AnyOperator]:
    """Return the operators of a stage, in order; those that pass every record on are left out.

    - ``ratio``: records that it puts out per record in.
    - ``window_ratio``: results per record of its window in the long run; by default it has no
      window.
    """
    first = None if window_ratio is None else windows_of_ratio(window_ratio)
    found = [first, of_ratio(ratio)]
    return [operator for operator in found if operator is not None]


def as_selectivity(operator: Operator) -> Selectivity:
    """Return an operator of the kind SELECTIVITY with its own fields."""
    return cast(Selectivity, operator)


def on_records(operator: Operator, count: int) -> int:
    """Take ``count`` records; return how many outputs are due now."""
    if operator.kind == WINDOW:
        return 0  # its results are put out one by one
    return on_selected(as_selectivity(operator), count)


# --- A task's outputs: its operators make of the records taken up what they do, and that is
# written.
#
# What finds no buffer is pending (``StreamTask.is_pending``), and blocks the task. It looks at its
# mailbox between two records (:func:`is_between`).


def outputs_available(worker: Worker, task: StreamTask) -> int:
    """Tell whether a task may begin another record, as far as its outputs go: 1 if so."""
    for i in range(task.partitions):
        if worker.is_available(worker.writer(i)) == 0:
            return 0
    return 1


def run_operators(worker: Worker, task: StreamTask) -> None:
    """Have every operator take what its input has put out, senders before receivers."""
    for i in range(task.operators):
        operator = worker.operator(i)
        records_in = put_out_by(worker, task, operator.input)
        fresh = records_in - operator.records_in
        if fresh > 0:
            operator.records_in = records_in
            count = on_records(operator, fresh)
            operator.records_out += count
            worker.note_put_out(i, count)


def put_out_by(worker: Worker, task: StreamTask, operator: int) -> int:
    """Records that an operator has put out, or that the task has taken up (TASK_INPUT).

    Of a task that calls a service, those that this has answered.
    """
    if operator == TASK_INPUT:
        return task.answered if task.awaits == 1 else task.taken
    found: int = worker.operator(operator).records_out
    return found


def put_out(worker: Worker, task: StreamTask, may_write: int) -> None:
    """Route all that the records taken up yield; write it now, or leave it pending."""
    route_out(worker, task, may_write)
    if task.has_requests == 1:
        if may_write == 1:
            worker.write_requests()
        else:
            task.is_pending = 1


def route_out(worker: Worker, task: StreamTask, may_write: int) -> None:
    """Do so as far as result partitions go."""
    run_operators(worker, task)
    for i in range(task.partitions):
        writer = worker.writer(i)
        due = put_out_by(worker, task, writer.operator)
        while writer.emitted < due:
            channel = worker.next_channel(writer)
            writer.emitted += 1
            worker.note_routed(writer, channel, 1)
            if may_write == 1:
                writer.left_bytes = worker.write(writer, channel, writer.record_bytes)
                if writer.left_bytes == 0:
                    continue
                may_write = 0
            fifo_push(worker.pending(writer), channel)
            task.is_pending = 1


def write_pending(worker: Worker, task: StreamTask) -> int:
    """Write what is pending, a partition after the other; 0 if the task is blocked in it."""
    if task.is_pending == 0:
        return 1
    for i in range(task.partitions):
        writer = worker.writer(i)
        pending = worker.pending(writer)
        while pending[FIFO_COUNT] > 0:
            if stays_blocked(writer.pool, writer.left_bytes) == 1:
                return 0
            channel = pending[FIFO_SLOTS + pending[FIFO_HEAD]]
            if task.is_timed == 1 and is_pending_mark(channel) == 1:
                nbytes = writer.left_bytes if writer.left_bytes > 0 else bytes_of_mark(channel)
                writer.left_bytes = worker.write_mark(writer, channel_of_mark(channel), nbytes)
            else:
                nbytes = writer.left_bytes if writer.left_bytes > 0 else writer.record_bytes
                writer.left_bytes = worker.write(writer, channel, nbytes)
            if writer.left_bytes > 0:
                return 0
            fifo_pop(pending)
    task.is_pending = 0
    if task.has_requests == 1:
        worker.write_requests()  # an answer may find no buffer
    return 1 - task.is_pending


def is_between(worker: Worker, task: StreamTask, start: int, end: int) -> int:
    """Tell whether a task is between two records at some moment of a round: 1 if so.

    It writes what is pending, which is the first thing that a round does in any case. A task that
    waits inside a record for a buffer is not, nor is one whose record is not done by the end.

    ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    """
    is_rated = 1 if task.kind == SERVER or task.kind == READER else 0
    if is_rated == 1 and task.is_pending == 1 and task.ready > end:
        return 0
    if write_pending(worker, task) == 0:
        return 0
    return 0 if is_rated == 1 and max(task.ready, start) >= end else 1
