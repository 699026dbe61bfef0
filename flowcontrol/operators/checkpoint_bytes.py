"""Bytes of a task's inputs, as a checkpoint counts them."""

from flowcontrol.operators.states import Worker
from flowcontrol.protocol.checkpoints import barriers as b


def begin_cut(worker: Worker, is_unaligned: int) -> None:
    """Note what has been processed of the inputs; what is in flight counts if it is persisted."""
    alignment, first = worker.alignment(), 0
    for number in range(worker.task.gates):
        gate = worker.input_gates()[number]
        nbytes = b.begin_cut(gate, worker.aligned(), first, worker.gate_record_bytes(number))
        if is_unaligned == 1:
            alignment.persisted += nbytes
        first += len(gate.channels)


def bytes_polled(worker: Worker) -> int:
    """Return the bytes that the task has polled from all its inputs."""
    total = first = 0
    for number in range(worker.task.gates):
        gate = worker.input_gates()[number]
        total += b.gate_polled_bytes(gate, worker.aligned(), first)
        first += len(gate.channels)
    return total
