"""The state that the rules of the network stack work on, each kind declared once."""

from dataclasses import dataclass


@dataclass(slots=True)
class GlobalPool:
    """The network memory of a task manager (``NetworkBufferPool``), or a share of it."""

    total: int = 0
    """Segments; constant."""
    free: int = 0
    """Segments not handed out."""
    unpooled: int = 0
    """Segments promised as exclusive buffers."""
    required: int = 0
    """Sum of what its local pools require, segments."""


@dataclass(slots=True)
class LocalPool:
    """The floating buffers of a gate, or the buffers of a partition (``LocalBufferPool``)."""

    size: int = 0
    """Current quota, buffers."""
    in_use: int = 0
    """Buffers requested and not recycled."""
    free: int = 0
    """Segments held and not in use."""
    required: int = 0
    """Buffers that it has at least."""
    maximum: int = 0
    """Buffers that it has at most; ``UNLIMITED`` for no limit."""
    max_overdraft: int = 0
    """Most buffers above the quota."""
    at_quota: int = 0
    """Subpartitions that hold ``max-buffers-per-channel`` or more."""
    is_destroyed: int = 0
    """1: destroyed."""


@dataclass(slots=True)
class InputChannel:
    """A channel at its receiver (``RemoteInputChannel`` with its ``BufferManager``)."""

    exclusive: int = 0
    """Free exclusive buffers."""
    floating: int = 0
    """Free floating buffers held."""
    required: int = 0
    """Free buffers that it wants; may be negative."""
    is_waiting: int = 0
    """1: it waits for a floating buffer of its gate."""
    unannounced: int = 0
    """Credit gained and not yet announced to the sender, buffers."""
    initial: int = 0
    """Initial credit: exclusive buffers that it owns, constant; -1 of a local channel."""
    is_released: int = 0
    """1: released."""
    arrived: int = 0
    """Messages received."""
    consumed: int = 0
    """Messages whose buffer was recycled."""
    announced: int = 0
    """Credits ever granted, the initial ones included."""
    processed: int = 0
    """Records that the task has begun to process."""


@dataclass(slots=True)
class Subpartition:
    """A channel at its sender (``PipelinedSubpartition``)."""

    buffers: int = 0
    """Buffers queued, the open one included."""
    is_open: int = 0
    """1: the last buffer is open."""
    filled: int = 0
    """Bytes in the open buffer."""
    unread: int = 0
    """Bytes of the open buffer that no slice has carried yet."""
    tail: int = 0
    """Records that end in those bytes."""
    marks: int = 0
    """Watermarks and statuses that end in them."""
    is_flushed: int = 0
    """1: a flush is pending."""
    sent: int = 0
    """Messages sent."""
    announced: int = 0
    """Credits ever granted, as the sender has heard."""
    written: int = 0
    """Records written whole."""
    consumed: int = 0
    """Of a local channel: messages consumed, as the producer has heard."""
    limit: int = 0
    """Bytes that the open buffer may take."""
    desired_buffer_size: int = 0
    """Size of buffer that the consumer wishes, bytes; 0: a whole segment."""
    passed: int = 0
    """Of a broadcast: shared buffers that this subpartition has let go of."""
    initial: int = 0
    """Initial credit of its receiver, constant; -1 of a local channel."""
    announced_backlog: int = 0
    """Backlog that was announced to the receiver last, buffers."""
    events: int = 0
    """Events queued."""
    ends_in_event: int = 0
    """1: what was queued last is an event."""
    empty: int = 0
    """Finished buffers with nothing left to send: a poll skips them."""
    is_blocked: int = 0
    """1: an event has blocked it, until consumption resumes."""
    blocks: int = 0
    """Events sent that block it."""
    resumed: int = 0
    """How often its receiver resumed consumption, as the sender has heard."""
    persisted: int = 0
    """Bytes that the checkpoint taken last persisted of it: those that its barrier overtook."""
    is_finished: int = 0
    """1: its end was queued; nothing may be added."""
    closed: int = 0
    """Where records are counted: those of ``buffers`` that are in a message; the rest may yet be
    joined by others."""
    handed: int = 0
    """Of ``push_quota``: of these, records that its socket has taken."""
    held: int = 0
    """Of ``push_quota``: what its sockets and its reader hold, 1 / ``HELD_PARTS`` of a byte."""
    quota: int = 0
    """Of ``push_quota``: bytes with which its reader stops reading; constant."""


@dataclass(slots=True)
class Message:
    """What travels on a channel: a buffer of records, or an event."""

    kind: int = 0
    """What it is: DATA, END_OF_PARTITION ... (:mod:`flowcontrol.state.queues`)."""
    records: int = 0
    """Records that end in it."""
    nbytes: int = 0
    """Bytes of data in it."""
    backlog: int = 0
    """Backlog of its channel when it left, buffers."""
    checkpoint: int = 0
    """Of a barrier, and of a marker that cancels it: the checkpoint; 0: none."""
    created: int = 0
    """When the coordinator triggered it, microseconds of the run; follows from its number."""
    marks: int = 0
    """Watermarks and statuses that end in it, between its records or behind them."""


@dataclass(slots=True)
class ReceivedMessage(Message):
    """A message that waits at its receiver."""

    buffer: int = 0
    """Kind of the buffer that it lies in: TAKEN_EXCLUSIVE, KIND_LOCAL ...; TAKEN_NONE: an event."""


@dataclass(slots=True)
class Ring:
    """Which states of a ring are in use."""

    head: int = 0
    """Place of the oldest."""
    count: int = 0
    """How many there are."""
    span: int = 0
    """Slots that it goes round in, the first ones (:mod:`flowcontrol.state.queues`)."""


@dataclass(slots=True)
class Task:
    """A subtask: the buffer that it reads, and how far it is."""

    gate: int = 0
    """Gate of the buffer being read."""
    channel: int = 0
    """Its channel."""
    buffer: int = 0
    """Its kind: TAKEN_EXCLUSIVE, TAKEN_FLOATING, KIND_LOCAL ..."""
    left: int = 0
    """Records of it not yet taken up."""
    marks: int = 0
    """Watermarks and statuses of it not yet taken; without those and records there is no buffer in
    hand."""
    goes_on: int = 0
    """1: the buffer in hand ends with the beginning of a record, which is read when the next record
    is asked for."""
    taken: int = 0
    """Records taken up; those of a source: emitted."""
    read: int = 0
    """Records of the buffer in hand that were taken up."""
    queued: int = 0
    """Records that arrived and were not taken up."""
    withheld: int = 0
    """Of these, records in channels that the task does not read while it aligns barriers, or that
    it has put aside."""
    ready: int = 0
    """Work by which the record in service is done, or the next one falls due, units."""
    draws: int = 0
    """Service times drawn."""
    has_checkpoints: int = 0
    """1: the job has checkpoints, and the task is shown every event that it polls; constant."""
    mail: int = 0
    """Messages that came since it last looked and that do not wait for their turn in a queue."""
    open_inputs: int = 0
    """Input channels that have not ended; of a source 1 until nothing falls due any more."""
    is_finished: int = 0
    """1: it has finished, and with it its result partitions."""


@dataclass(slots=True)
class Alignment:
    """A task's alignment of barriers over all its gates (``SingleCheckpointBarrierHandler``).

    Times are in whatever unit the caller counts in, bytes are whole.
    """

    mode: int = 0
    """What the task does with barriers: ALIGNED, TIMEOUTABLE, UNALIGNED, AT_LEAST_ONCE or
    PUTTING_ASIDE (:mod:`flowcontrol.protocol.checkpoints.alignment`); constant."""
    timeout: int = 0
    """``aligned-checkpoint-timeout``; constant."""
    tasks_finish: int = 1
    """1: a channel that ends counts as having delivered (FLIP-147); constant."""
    open_channels: int = 0
    """Channels that have not ended."""
    latest_id: int = -1
    """Newest checkpoint seen or cancelled; -1: none."""
    is_pending: int = 0
    """1: barriers of the latest checkpoint are missing."""
    kind: int = 0
    """Kind of its barriers at first sight: ALIGNED (savepoints too), TIMEOUTABLE or UNALIGNED."""
    created: int = 0
    """When the coordinator triggered it."""
    first_seen: int = 0
    """When the task first saw it."""
    deadline: int = -1
    """When it turns unaligned; -1: never."""
    target: int = 0
    """Channels that were open when it began."""
    delivered: int = 0
    """Channels that delivered, those that ended since included."""
    barriers: int = 0
    """Channels that delivered a barrier."""
    is_unaligned: int = 0
    """1: it is unaligned, from the first barrier or since the switch."""
    resumes_at_switch: int = 1
    """1: blocked channels resume when it turns unaligned; 0: when the last barrier is in, as those
    of a real Flink do."""
    is_triggered: int = 0
    """1: the task has been asked to snapshot."""
    is_aligning: int = 0
    """1: between first and last barrier."""
    aligned_since: int = 0
    """When the first barrier came."""
    start_delay: int = 0
    """Age of the checkpoint at first sight."""
    alignment: int = 0
    """Time from first to last barrier; 0 until the last one is there."""
    bytes_processed: int = 0
    """Bytes polled between first and last barrier."""
    persisted: int = 0
    """Input bytes persisted."""
    triggered_id: int = -1
    """Checkpoint that was triggered last; -1: none."""
    aborted_id: int = -1
    """Checkpoint that was aborted last; -1: none."""
    aborted_reason: int = 0
    """Why: SUBSUMED, ON_CANCELLATION_BARRIER, INPUT_END_OF_STREAM or LIMIT_EXCEEDED."""


@dataclass(slots=True)
class AlignedChannel:
    """What a task's alignment knows of an input channel."""

    is_open: int = 1
    """1: its partition has not ended."""
    has_delivered: int = 0
    """1: it delivered the barrier of the latest checkpoint, or ended since that began."""
    is_blocked: int = 0
    """1: its barrier blocks it until consumption resumes."""
    is_withheld: int = 0
    """1: it is not read, but its sender goes on (:mod:`flowcontrol.protocol.network.events`)."""
    is_announced: int = 0
    """1: a barrier waits in it behind data."""
    is_overtaken: int = 0
    """1: that barrier is to be pulled to the front, or was."""
    resumed: int = 0
    """How often its consumption was resumed; only grows."""
    barriers: int = 0
    """Barriers taken from it; only grows."""
    tracked: int = 0
    """At least once: set of the places in the ring whose checkpoints it delivered, bits."""
    arrived: int = 0
    """Bytes that have arrived in it."""
    aside: int = 0
    """Of those, bytes that were put aside behind a barrier and not polled since (PUTTING_ASIDE)."""
    marks: int = 0
    """Watermarks and statuses that the task has taken from it."""
    mark_bytes: int = 0
    """Bytes of those that it has taken since it began."""
    barrier_at: int = 0
    """Bytes of it before the barrier that it delivered last."""
    cut: int = 0
    """Bytes of it that the task had processed when it last took a checkpoint."""
    persisted: int = 0
    """Bytes in flight that this checkpoint persisted of it."""


@dataclass(slots=True)
class TrackedCheckpoint:
    """A checkpoint that an at-least-once task counts (``CheckpointBarrierCount``)."""

    checkpoint: int = 0
    """Its id."""
    delivered: int = 0
    """Channels that delivered."""
    target: int = 0
    """Channels that were open when it began."""
    is_aborted: int = 0
    """1: aborted; its barriers are still counted."""
    created: int = 0
    """When the coordinator triggered it."""


@dataclass(slots=True)
class TaskCheckpoint:
    """What a task knows of checkpoints beside its alignment (``SubtaskCheckpointCoordinator``).

    Times are microseconds of the run.
    """

    mode: int = 0
    """Of the job: ALIGNED, TIMEOUTABLE, UNALIGNED, AT_LEAST_ONCE or PUTTING_ASIDE
    (:mod:`flowcontrol.protocol.checkpoints.alignment`); constant."""
    timeout: int = 0
    """``aligned-checkpoint-timeout``; constant."""
    withholds: int = 0
    """1: the sender behind a barrier goes on, and the task leaves the channel unread; 0: the sender
    stops; constant."""
    waits_final: int = 0
    """1: a task finishes when a checkpoint is complete that was taken after its data had ended
    (FLIP-147); -1: it only says so, for sinks that then flush; 0: neither; constant."""
    data_open: int = 0
    """Input channels whose data has not ended; of a source 1."""
    has_ended: int = 0
    """1: the task has processed its last record, and has said so."""
    final: int = 0
    """First checkpoint that it took since; 0: none."""
    finishes: int = -1
    """Round in which it hears that such a one is complete; -1: not known."""
    handled: int = 0
    """Newest checkpoint that it has taken or cancelled; 0: none."""
    kind: int = 0
    """Kind of the barrier that it delivered last, a kind of message."""
    measured: int = 0
    """Checkpoint whose alignment is being measured."""
    polled: int = 0
    """Bytes that it had polled at the first barrier of that one."""
    pending: int = 0
    """Checkpoint that it has taken and not acknowledged; 0: none."""
    waits_inputs: int = 0
    """1: barriers are missing, and so a part of what that one persists."""
    waits_outputs: int = 0
    """1: a timeoutable barrier of it stands in an output, and may yet overtake."""
    waits_requests: int = 0
    """1: its sink waits until no request is in flight; the snapshot comes behind that."""
    deadline: int = -1
    """When such barriers overtake; -1: never."""
    sync: int = 0
    """Length of the synchronous part of a snapshot, for which the task stands still; constant."""
    synced_at: int = 0
    """When that of the last one ends."""
    slowdown: int = 0
    """Share of its service that the task loses while its task manager uploads, in billionths;
    constant."""
    is_slowed: int = 0
    """1: its task manager uploads."""
    start_delay: int = 0
    """Age of that checkpoint when the task first saw it."""
    alignment: int = 0
    """From the first of its barriers to the last."""
    processed: int = 0
    """Bytes polled between these."""
    persisted: int = 0
    """Bytes in flight that it persists: of the outputs, and once the last barrier is in of the
    inputs."""
    commit_us: int = 0
    """What a commit of its own takes, files included; 0: it has none; constant."""
    commit_files: int = 0
    """Files of it; constant."""
    staged: int = 0
    """Checkpoints that it has taken with records since the one before, and not committed."""
    staged_at: int = 0
    """Records that it had taken up at the last one."""
    completed: int = 0
    """Checkpoint that is complete, whose commit has not begun; 0: none."""
    commits: int = -1
    """Round from which on it may begin."""
    look_rounds: int = 0
    """Rounds of an interval, of each of which a transactional sink says when it begins to write;
    0: of another task; constant."""
    looked: int = -1
    """The last interval of which it has said so."""


@dataclass(slots=True)
class CoordinatorMessage:
    """What the coordinator tells a task: a checkpoint to trigger, or one that it aborted."""

    checkpoint: int = 0
    """Its id."""
    created: int = 0
    """When it was triggered, microseconds of the run."""
    is_savepoint: int = 0
    """1: a savepoint; 2: one with which the job stops."""
    arrives: int = 0
    """Round in which the task hears of it."""


@dataclass(slots=True)
class CheckpointReport:
    """What a task tells the coordinator: one line of the log of all tasks."""

    task: int = 0
    """Which task, in the order of the job."""
    kind: int = 0
    """TAKEN, ACKNOWLEDGED, DECLINED, FINISHED, ENDED, WRITES or COMMITS
    (:mod:`flowcontrol.protocol.checkpoints.barriers`)."""
    checkpoint: int = 0
    """Its id; 0 of FINISHED, ENDED and WRITES."""
    round: int = 0
    """Round in which the task sent it."""
    reason: int = 0
    """Of DECLINED: why (:mod:`flowcontrol.protocol.checkpoints.alignment`)."""
    start_delay: int = 0
    """Age of the checkpoint when the task first saw it, microseconds."""
    alignment: int = 0
    """From its first barrier to its last, microseconds."""
    records: int = 0
    """Of TAKEN: records that the task had taken up; of WRITES: those before the round; of COMMITS:
    what the commit takes, microseconds."""
    contents: int = 0
    """Of TAKEN: bytes of the windows that the task had open, or of what a sink had buffered; of
    COMMITS: files."""
    processed: int = 0
    """Bytes polled between first and last barrier."""
    persisted: int = 0
    """Bytes in flight persisted, of inputs and outputs."""
