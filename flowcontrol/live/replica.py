"""A job's memory in one of several processes, each of which runs some of its tasks.

Every process lays out the whole job, so an address means the same in all of them. It steps its own
tasks by the kernel's functions; the others are *ghosts*, of which it knows what they have published
after the round before: a :class:`TaskShare` each. A round is then as in one memory, since no task
sees of another one what that does in the same round: a message, credit or buffer that is let go of
takes a round at least.

A share is what differs from the memory before the first round, as places and values, and what the
task has put into its channels in the round: messages and records in flight to its receivers, credit
to its senders. What was put in before stands with whoever is to remove it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flowcontrol.control.between import acts_between
from flowcontrol.errors import ProtocolError
from flowcontrol.kernel import views as v
from flowcontrol.kernel.ages import Move, free_runs, push_mark, push_run, run_at
from flowcontrol.kernel.credits import wake_sender
from flowcontrol.kernel.ending import is_empty
from flowcontrol.kernel.loop import run_tasks, settle_until
from flowcontrol.kernel.messages import expect
from flowcontrol.kernel.reports import deliver_orders, log_element
from flowcontrol.kernel.views import (
    REPORT_CELLS,
    collect,
    inputs_of,
    kernel_checkpoints,
    outputs_of,
    sleep,
    wake,
)
from flowcontrol.layout.job import Job
from flowcontrol.live.shares import (
    COUNTED,
    ChannelShare,
    Runs,
    SharedMachines,
    Shares,
    Standing,
    TaskShare,
)
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import row
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import CUT_SLOTS
from flowcontrol.memory.parts import THROTTLES
from flowcontrol.memory.places import FLAG_PROTOCOL, Ints
from flowcontrol.protocol.checkpoints.barriers import ACKNOWLEDGED, FOR_READERS, TAKEN
from flowcontrol.state.declared import assign, cell, columns
from flowcontrol.state.network import CheckpointReport
from flowcontrol.state.queues import append, drop, next_slot

_MESSAGE, _CREDIT = columns(f.KernelMessage), columns(f.KernelCredit)


class Replica:
    """The memory of a job in which some of its tasks run.

    - ``memory``: of it, before the first round; filled alike in every process.
    - ``own``: the tasks that run here; none where the others are only looked at.
    - ``moves``: what they did with records in the last round, or what was done to them before it.
    - ``taken_before``: how many each had taken up before it.
    - ``machines``: what they share with others.
    - ``sees_turns``: whether a round that was run ends behind the turns of its connections.
    """

    sees_turns = False

    def __init__(self, job: Job, memory: Memory, own: Sequence[int]) -> None:
        self.job, self.memory, self.own = job, memory, tuple(own)
        m = self._head = memory.head
        self._standing = Standing(memory)
        self.machines = SharedMachines(memory, self._standing, self.own)
        self.moves, self.taken_before = list[Move](), dict[int, int]()
        self._take_moves()
        self._is_own = set(own)
        self._inputs = {task: list(inputs_of(memory, task)) for task in self.own}
        self._outputs = {task: list(outputs_of(memory, task)) for task in self.own}
        # Own tasks see nothing of a ghost but its rows of the channels that they share with it.
        self._sees_all = not own or self.machines.is_any or acts_between(job)
        # A throttle may look at the ages of all records, and so does who looks at all tasks.
        self._wants_runs = not own or m.parts & THROTTLES != 0
        self._cuts: dict[int, list[int]] = {}
        self._counted = [0] * len(COUNTED)
        self._reported = self._wanted = 0
        first = sum(plan.stage.parallelism for plan in job.stages)
        for task in range(first):
            if task not in self._is_own:
                sleep(m, task)

    # ------------------------------------------------------------------ a round

    def run(self) -> Shares:
        """Run the next round of the tasks that run here; return what they publish.

        Raises ProtocolError if a message came without a buffer to put it in, or a log is full.
        """
        m, number = self._head, self._head.round
        self._begin()
        self.machines.agree()
        if m.has_checkpoints == 1:
            deliver_orders(m)
        m.now = number
        every: Any = row(m, m.active, 2 * m.tasks)
        due = [every[i] for i in range(collect(m, number))]
        own = sorted(task for task in due if task in self._is_own)
        for i, task in enumerate(own):
            every[i] = task
        self.taken_before = {task: v.task_row(m, task).taken for task in self.own}
        run_tasks(m, every, len(own))
        self._take_moves()
        queued, served = self.machines.take()
        m.round = number + 1
        for task in self.own:
            settle_until(m, task, number + 1)
        if m.flags != 0:
            raise broken(number, m.flags)
        shares = self._published()
        shares.queued, shares.served, shares.machines = queued, served, self.machines.state
        return shares

    def _take_moves(self) -> None:
        """Take what the journal has, and begin a new one."""
        journal: Any = self._head
        self.moves, journal.moves = journal.moves or [], []

    def _begin(self) -> None:
        """Forget what is on its way between own tasks and others: it is somebody else's."""
        m = self._head
        for task in self.own:
            for channel in self._inputs[task]:
                into = v.in_row(m, channel)
                out = v.out_row(m, into.out)
                if into.credits_most > 0:
                    _emptied(v.credit_queue(m, into.credits, into.credits_most), ())
                v.clear_bit(m, v.partition_row(m, out.partition).credited, out.place)
            for channel in self._outputs[task]:
                out = v.out_row(m, channel)
                _emptied(v.wire_queue(m, out.input), ())
                free_runs(m, out.runs)
                v.in_row(m, out.input).recorded = 0  # its receiver records
        self._counted = [getattr(m, name) for name in COUNTED]
        self._reported, self._wanted = m.reports_count, m.reports_wanted

    # ------------------------------------------------------------------ published

    def _published(self) -> Shares:
        m, memory = self._head, self.memory
        shares = Shares({task: self._take(task) for task in self.own})
        shares.ages = rows_of_log(memory.ages[: m.ages_count])
        shares.results = rows_of_log(memory.results[: m.results_count])
        shares.reports = self._take_reports()
        m.ages_count = m.results_count = 0
        shares.counted = [
            getattr(m, name) - before for name, before in zip(COUNTED, self._counted, strict=True)
        ]
        for name, before in zip(COUNTED, self._counted, strict=True):
            setattr(m, name, before)
        return shares

    def _take_reports(self) -> list[list[int]]:
        m = self._head
        first, count = self._reported, m.reports_count - self._reported
        m.reports_count, m.reports_wanted = self._reported, self._wanted
        if count == 0:
            return []
        at = m.reports + first * REPORT_CELLS
        return self.memory.cells[at : at + count * REPORT_CELLS].reshape(count, -1).tolist()

    def _take(self, task: int) -> TaskShare:
        found = self.memory.tasks[task]
        runs: Runs = []
        if found["log"] > 0 and found["throttle"] > 0:
            runs = self._runs(v.source_log(self._head, int(found["log"])).runs)
        return TaskShare(
            self._standing.differing(self._standing.beside(task)),
            int(found["wake"]),
            {channel: self._take_input(channel) for channel in self._inputs[task]},
            {channel: self._take_output(channel) for channel in self._outputs[task]},
            runs,
            self._take_cuts(task),
        )

    def _take_cuts(self, task: int) -> list[list[int]]:
        """Return what a task keeps of the checkpoints that it has taken in the round."""
        if self._head.has_checkpoints == 0:
            return []
        held = kernel_checkpoints(self._head, v.task_row(self._head, task).checkpoints)
        cells = self.memory.cells
        slots = held.cuts + np.arange(CUT_SLOTS) * (1 + held.cut_cells)
        ids = cells[slots].tolist()
        before, self._cuts[task] = self._cuts.get(task, [0] * CUT_SLOTS), ids
        return [
            cells[at : at + 1 + held.cut_cells].tolist()
            for at, old, new in zip(slots.tolist(), before, ids, strict=True)
            if old != new
        ]

    def _take_input(self, channel: int) -> ChannelShare:
        m, share = self._head, self._standing.share("input", channel)
        into = v.in_row(m, channel)
        out = v.out_row(m, into.out)
        if into.credits_most > 0:
            told = v.credit_queue(m, into.credits, into.credits_most)
            share.messages = _emptied(told, _CREDIT)
        credited = v.partition_row(m, out.partition).credited
        share.has_news = v.next_bit(m, credited, out.place + 1, out.place - 1) == out.place
        share.runs = self._runs(out.runs)
        return share

    def _take_output(self, channel: int) -> ChannelShare:
        m, share = self._head, self._standing.share("output", channel)
        out = v.out_row(m, channel)
        share.messages = _emptied(v.wire_queue(m, out.input), _MESSAGE)
        share.runs = self._runs(out.runs)
        return share

    def _runs(self, runs: f.RunList) -> Runs:
        found, number = [], runs.head
        while number > 0:
            one = run_at(self._head, number - 1)
            found.append([one.round, one.count, one.stamp, one.kind])
            number = one.next
        return found

    # ------------------------------------------------------------------ put back, and shown

    def restore(self, number: int, shares: Shares) -> None:
        """Put tasks and machines of a memory where they were after a round, before its first."""
        m = self._head
        m.round, m.now = number + 1, number
        for task, share in shares.tasks.items():
            self._restore(task, share)
        self.machines.restore(shares.machines)

    def _restore(self, task: int, share: TaskShare) -> None:
        m = self._head
        self._standing.put(share.cells)
        for _, _, one in share.channels():
            self._standing.put(one.cells)
            self._standing.put(one.queues)
        for channel, into in share.inputs.items():
            self._push(v.out_row(m, v.in_row(m, channel).out), into.runs)
        if share.runs:
            log = v.source_log(m, int(self.memory.tasks["log"][task]))
            for emitted, count, stamp, _ in share.runs:
                push_run(m, log.runs, emitted, count, stamp)
        sleep(m, task)
        if share.wake >= 0:
            wake(m, task, share.wake)

    def unheard(self, number: int, count: int) -> range:
        """Return the rounds that are to be heard before one is run, the first of a batch."""
        return range(max(0, number - count), number)

    def hear(self, shares: Shares) -> None:
        """Have the tasks that run here see what the others have published after the last round.

        ``shares``: of all tasks, or of the neighbours only, of which the channels between them are
        enough.
        """
        m = self._head
        ghosts = {task: one for task, one in shares.tasks.items() if task not in self._is_own}
        self._show_rows(ghosts.values())
        if self._sees_all:
            for task, share in ghosts.items():
                self._show(task, share)
        for share in shares.tasks.values():
            for channel, into in share.inputs.items():
                self._tell(channel, into)
            for channel, out in share.outputs.items():
                self._send(channel, out)
        for name, count in zip(COUNTED, shares.counted, strict=True):
            setattr(m, name, getattr(m, name) + count)
        self.machines.serve(shares)
        for report in sorted(shares.reports, key=lambda row: row[_TASK]):
            self._hear_report(report)
        if m.parts & THROTTLES != 0:
            m.is_empty = is_empty(m, m.round - 1)

    def look_at(self, shares: Shares) -> None:
        """Show all tasks as they stand after the next round; none of them runs here."""
        m = self._head
        m.now = m.round
        m.round += 1
        self.hear(shares)
        for log, entries, count in (
            (self.memory.ages, shares.ages, "ages_count"),
            (self.memory.results, shares.results, "results_count"),
        ):
            if entries:
                cells = log.view(np.int64).reshape(len(log), -1)
                first = getattr(m, count)
                cells[first : first + len(entries)] = entries
                setattr(m, count, first + len(entries))

    def _hear_report(self, report: list[int]) -> None:
        m = self._head
        at = m.reports + m.reports_count * REPORT_CELLS
        self.memory.cells[at : at + REPORT_CELLS] = report
        m.reports_count += 1
        kind = report[_KIND]
        if kind in FOR_READERS:
            m.reports_wanted += 1
        elif kind not in (ACKNOWLEDGED, TAKEN):
            m.reports_wanted = 0

    def _show_rows(self, ghosts: Iterable[TaskShare]) -> None:
        """Have the channels of ghosts count at their side what they counted after a round."""
        rows, pairs = list[Ints](), list[int]()
        for share in ghosts:
            for side, channel, one in share.channels():
                rows.append(self._standing.row(side, channel))
                pairs += one.cells
        if rows:
            self._standing.show(np.concatenate(rows), pairs)

    def _show(self, task: int, share: TaskShare) -> None:
        """Have a ghost stand as it stood after a round, but for the rows of its channels."""
        m, cells = self._head, self.memory.cells
        if share.cells:
            self._standing.show(self._standing.beside(task), share.cells)
        found = self.memory.tasks[task]
        if share.cells and found["log"] > 0 and found["throttle"] > 0:
            runs = v.source_log(m, int(found["log"])).runs
            free_runs(m, runs)
            for emitted, count, stamp, _ in share.runs:
                push_run(m, runs, emitted, count, stamp)
        for cut in share.cuts:
            held = kernel_checkpoints(m, v.task_row(m, task).checkpoints)
            at = held.cuts + cut[0] % CUT_SLOTS * (1 + held.cut_cells)
            cells[at : at + len(cut)] = cut
        for side, channel, one in share.channels():
            self._standing.show_queues(side, channel, one.queues)
        for channel, into in share.inputs.items() if self._wants_runs else ():
            out = v.out_row(m, v.in_row(m, channel).out)
            free_runs(m, out.runs)
            self._push(out, into.runs)

    def _push(self, out: f.KernelSubpartition, runs: Runs) -> None:
        for emitted, count, stamp, kind in runs:
            if kind > 0:
                push_mark(self._head, out.runs, kind, stamp)
            else:
                push_run(self._head, out.runs, emitted, count, stamp)

    def _send(self, channel: int, share: ChannelShare) -> None:
        """Put what a sender has put into a channel in a round on its way to the receiver."""
        m = self._head
        out = v.out_row(m, channel)
        is_own, into = out.receiver in self._is_own, v.in_row(m, out.input)
        if not is_own and not self._sees_all:
            return
        queue = v.wire_queue(m, out.input)
        for values in share.messages:
            message = next_slot(queue)
            assign(message, f.KernelMessage(*values))
            append(queue)
            expect(m, out, message.round)
        if is_own or self._wants_runs:
            self._push(out, share.runs)
        if into.recorded > 0 and is_own:
            for _, count, stamp, kind in share.runs:
                log_element(m, channel, into.recorded, count, stamp, kind)
            sender = kernel_checkpoints(m, v.task_row(m, out.sender).checkpoints)
            if sender.own.handled >= into.recorded:
                into.recorded = 0

    def _tell(self, channel: int, share: ChannelShare) -> None:
        """Put what a receiver has told in a round on its way to the sender."""
        m = self._head
        into = v.in_row(m, channel)
        out = v.out_row(m, into.out)
        if out.sender not in self._is_own and not self._sees_all:
            return
        for values in share.messages:
            credits = v.credit_queue(m, into.credits, into.credits_most)
            credit = next_slot(credits)
            assign(credit, f.KernelCredit(*values))
            append(credits)
            wake_sender(m, out, credit.round)
        if share.has_news and not share.messages:
            wake_sender(m, out, m.round)


def broken(number: int, flags: int) -> ProtocolError:
    """Return what is wrong with a round that has raised flags."""
    text = f"round {number} takes more room than a process has for a round (flags {flags})"
    if flags & FLAG_PROTOCOL:
        text = f"round {number}: a message came without a buffer to put it in: rules were broken"
    return ProtocolError(text)


def _emptied(queue: Any, names: tuple[str, ...]) -> list[list[int]]:
    """Return the fields of what is in a queue, oldest first, and empty it."""
    found = []
    while queue.ends.count > 0:
        state = drop(queue)
        found.append([int(getattr(state, name)) for name in names])
    return found


def rows_of_log(log: Any) -> list[list[int]]:
    """Return the cells of the entries of a log."""
    if len(log) == 0:
        return []
    rows: list[list[int]] = log.view(np.int64).reshape(len(log), -1).tolist()
    return rows


_TASK, _KIND = cell(CheckpointReport, "task"), cell(CheckpointReport, "kind")
