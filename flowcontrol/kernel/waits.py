"""Operators that call a service: what is in their queue, and what leaves it for their outputs."""

from flowcontrol.kernel import writing as w
from flowcontrol.memory.cells import part_of, rows_of
from flowcontrol.memory.parts import REQUESTS
from flowcontrol.memory.places import KernelMemory
from flowcontrol.memory.requests import KernelRequests
from flowcontrol.protocol.requests import async_wait
from flowcontrol.protocol.requests.async_wait import EMPTY
from flowcontrol.protocol.requests.entries import take_first
from flowcontrol.protocol.service import work_by
from flowcontrol.protocol.tasks.operators import route_out
from flowcontrol.state.async_wait import Element, Wait
from flowcontrol.state.requests import Requests
from flowcontrol.state.tasks import SERVER, Worker

element_rows = rows_of(Element)


def wait_of(m: KernelMemory, held: KernelRequests, requests: Requests) -> Wait:
    """Return the queue of a task as the rules see it."""
    elements = element_rows(m, held.elements, held.element_count)
    return Wait(held.wait, held.queue, elements, requests)


@part_of(REQUESTS)
def call_taken(m: KernelMemory, worker: Worker, held: KernelRequests, requests: Requests) -> None:
    """Call the service for the record that is processed, if there is one; run what is due."""
    wait = wait_of(m, held, requests)
    if held.taken.records > 0:  # one: where outputs follow, records are taken up one by one
        async_wait.put_record(worker, wait, take_first(requests, held.taken), m.now)
        if held.wait.is_blocking == 1 and worker.task.kind == SERVER:
            done = work_by(worker.service_phases(), worker.now_us())
            held.into_round = max(0, worker.task.ready - done)
    async_wait.run_mails(worker, wait, m.now)


@part_of(REQUESTS)
def go_on(worker: Worker, held: KernelRequests, start: int) -> None:
    """Have the thread of a lookup go on as far into the round as it was when it began to wait.

    ``start``: work that its rate allows by the start of the round, units.
    """
    if held.wait.is_blocking == 1 and worker.task.kind == SERVER:
        worker.task.ready = max(worker.task.ready, start + held.into_round)


@part_of(REQUESTS)
def end_calls(m: KernelMemory, worker: Worker, held: KernelRequests, requests: Requests) -> int:
    """Begin what comes when the input is over; return 1 if nothing is left in the queue."""
    wait = wait_of(m, held, requests)
    async_wait.begin_end(worker, wait, m.now)
    async_wait.run_mails(worker, wait, m.now)
    return async_wait.is_free(wait)


@part_of(REQUESTS)
def is_free(m: KernelMemory, held: KernelRequests, requests: Requests) -> int:
    """Tell whether a task waits for nothing of its queue: 1 if so."""
    return async_wait.is_free(wait_of(m, held, requests))


@part_of(REQUESTS)
def is_cached(m: KernelMemory, held: KernelRequests, wait: Wait, element: Element) -> int:
    """Tell whether a cache has the answer to a record: 1 if so; drawn, the same at each call."""
    if held.hit_share == 0:
        return 0
    number = wait.requests.entries[element.call.entries.head - 1].first
    return 1 if w.uniform(m.seed, held.cache_stream, number) * 1000000.0 < held.hit_share else 0


@part_of(REQUESTS)
def emit(worker: Worker, wait: Wait, element: Element) -> None:
    """Put out the record of an element that leaves the queue, unless its call had no result."""
    task = worker.task
    if element.is_mark == 1 or element.outcome == EMPTY:
        return
    task.emitted = wait.requests.entries[element.call.entries.head - 1].emitted
    task.answered += 1
    route_out(worker, task, 1)
