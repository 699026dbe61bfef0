"""The state of a sink with requests in flight: its buffer, its window, what it waits for.

Places of entries and of requests count from 1, so 0 says that there is none. Times are rounds of a
clock, or whatever unit its caller has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

ASYNC: Final = 0
"""A writer that goes on while its requests are in flight (``AsyncSinkWriter``)."""
BLOCKING: Final = 1
"""A writer whose thread waits for each request (``JdbcOutputFormat``, ``BulkProcessor``)."""
PRODUCER: Final = 2
"""A writer that gathers batches of partitions, which a thread sends (``KafkaProducer``)."""
NONE = 0
"""A place that there is not."""
NEVER = -1
"""A time that does not come."""


@dataclass(slots=True)
class Entry:
    """Records of one size that a source emitted at one time, one after the other."""

    next: int = NONE
    """Place of the next one of its list; of a free one: of the next free one."""
    first: int = 0
    """Number of the first record; each record of a task has its own."""
    count: int = 0
    """Records."""
    size: int = 0
    """Of each, bytes."""
    emitted: int = 0
    """When the source emitted them."""
    fails: int = 0
    """1: the answer of the request in which they are will say that they failed."""
    tries: int = 0
    """Requests in which they have been."""
    stamp: int = 0
    """Event time and id of the record of an operator; of a watermark that a checkpoint has kept,
    which is an entry without records, that watermark."""


@dataclass(slots=True)
class EntryList:
    """Entries one behind the other."""

    head: int = NONE
    """Place of the first one."""
    tail: int = NONE
    """Place of the last one."""
    records: int = 0
    """Records in them all."""
    nbytes: int = 0
    """Bytes in them all."""


@dataclass(slots=True)
class Request:
    """A request in flight; a free place has the number 0."""

    number: int = 0
    """How many there were up to this one."""
    entries: EntryList = field(default_factory=EntryList)
    """What is in it."""
    asked: int = 0
    """Records that were to be in it: so many of the window it takes up."""
    sent: int = 0
    """When it was sent."""
    due: int = NEVER
    """When its answer comes."""
    expires: int = NEVER
    """When it times out."""
    batches: int = NONE
    """Place of the first batch in it, of a producer."""
    tries: int = 0
    """How often what is in it has failed."""
    again: int = NEVER
    """When it is sent again."""


@dataclass(slots=True)
class Batch:
    """Records of a producer for one partition (``ProducerBatch``)."""

    next: int = NONE
    """Place of the next one of its partition, of its request, or that is free."""
    partition: int = 0
    """Whose it is."""
    number: int = 0
    """How many of the partition there were before it."""
    entries: EntryList = field(default_factory=EntryList)
    """What is in it while it is not in flight."""
    records: int = 0
    """Records in it while it is in flight."""
    memory: int = 0
    """Bytes that it holds of the pool."""
    created: int = 0
    """When it was begun."""
    is_full: int = 0
    """1: it takes no more records."""
    tries: int = 0
    """How often it has failed."""
    again: int = NEVER
    """When it may be sent again."""


@dataclass(slots=True)
class BatchQueue:
    """Batches of one partition, the oldest first."""

    head: int = NONE
    """Place of the first one that is to be sent."""
    tail: int = NONE
    """Place of the last one."""
    begun: int = 0
    """Batches begun."""
    acknowledged: int = 0
    """Batches acknowledged."""
    in_flight: int = 0
    """Batches in flight."""


@dataclass(slots=True)
class Backoff:
    """How often and after which time something that failed is tried again; constant."""

    retries: int = 0
    """Attempts after the first one."""
    first_us: int = 0
    """Time before the first of them, microseconds."""
    step_us: int = 0
    """By which each later one is longer (JDBC)."""
    multiplier: int = 1_000_000
    """By which each later one is multiplied, millionths, at least 1,000,000."""
    is_steep: int = 0
    """1: each later one grows as the bulk processor of Elasticsearch has it."""
    most_us: int = 10**10
    """The longest, microseconds."""
    unit_us: int = 1000
    """Length of a unit of time, microseconds."""


@dataclass(slots=True)
class WriterSettings:
    """What a writer may do (``AsyncSinkWriterConfiguration``); constant."""

    style: int = ASYNC
    """Which writer it is: ASYNC, BLOCKING or PRODUCER."""
    batch: int = 1
    """Records of a request (``maxBatchSize``), above 0."""
    batch_bytes: int = 1
    """Bytes of a request (``maxBatchSizeInBytes``), at least those of a record."""
    in_flight: int = 1
    """Requests in flight (``maxInFlightRequests``), above 0."""
    buffered: int = 2
    """Records in the buffer (``maxBufferedRequests``), above ``batch``."""
    buffer_time: int = 1
    """Time after which a record leaves the buffer (``maxTimeInBufferMS``), above 0; of a blocking
    writer the time between two flushes, NEVER if there is none."""
    timeout: int = NEVER
    """Time after which a request counts as failed (``requestTimeoutMS``); of a producer after which
    a batch is given up (``delivery.timeout.ms``)."""
    has_window: int = 1
    """1: the records in flight are limited (``CongestionControlRateLimitingStrategy``)."""
    increase: int = 10
    """By which the window grows with a request without failures, above 0."""
    decrease: int = 500_000
    """By which it shrinks with another one, millionths, between 0 and 1,000,000."""
    threshold: int = 1
    """The most that the window grows to, records."""
    retry: Backoff = field(default_factory=Backoff)
    """When a blocking writer or a producer sends again what failed."""
    is_whole: int = 0
    """1: it sends all of a request again that failed in part."""
    flushes: int = 1
    """1: a checkpoint waits until nothing is in its buffer."""
    partitions: int = 1
    """Partitions to which a producer writes."""
    memory: int = 1
    """Bytes of a producer's pool (``buffer.memory``)."""
    request_bytes: int = 1
    """Bytes of a producer's request (``max.request.size``)."""
    max_block: int = NEVER
    """Time for which a producer's write waits for memory until it fails (``max.block.ms``)."""


@dataclass(slots=True)
class Bucket:
    """A limit of a destination, or of a writer itself, as a token bucket, in billionths."""

    rate: int = 0
    """Tokens a second, thousandths; constant. 0: there is no limit."""
    most: int = 0
    """The most that it holds, billionths of a token; constant."""
    tokens: int = 0
    """What it holds, billionths of a token."""
    filled_us: int = 0
    """When it was filled last, microseconds."""


@dataclass(slots=True)
class SinkWriter:
    """How far a writer is (``AsyncSinkWriter``)."""

    buffer: EntryList = field(default_factory=EntryList)
    """What is to be sent, the oldest first."""
    window: int = 1
    """Records that may be in flight."""
    in_flight: int = 0
    """Requests in flight."""
    in_flight_records: int = 0
    """Records in flight, as far as the window knows: those that were asked for."""
    bucket: Bucket = field(default_factory=Bucket)
    """Of the records that it may send, without a window."""
    looks: int = NEVER
    """When there are tokens for the request that waits, and nothing is in flight."""
    timer: int = NEVER
    """When the buffer's timer fires."""
    next_at: int = NEVER
    """When the next answer comes, a request times out, or the timer fires."""
    waits: int = 0
    """What the task does until it may go on: RESTING, WRITING, FLUSHING, ENDING or ENDING_FLUSH
    (:mod:`flowcontrol.protocol.requests.common`)."""
    is_draining: int = 0
    """1: the buffer's timer has fired, and the buffer is not yet empty, or not yet stored."""
    again: EntryList = field(default_factory=EntryList)
    """What has just failed, on its way to the head of the buffer."""
    hand: int = NONE
    """Place of the record whose write waits."""
    used: int = 0
    """Entries that ever held something."""
    free: int = NONE
    """Place of an entry that is free again."""
    requests: int = 0
    """Requests sent."""
    sent: int = 0
    """Records sent, each as often as it was (``numRecordsSend``)."""
    sent_bytes: int = 0
    """Their bytes (``numBytesSend``)."""
    acknowledged: int = 0
    """Records whose request was answered without their failing."""
    failed: int = 0
    """Records that came back, each as often as it did (``numRecordsSendErrors``)."""
    failed_requests: int = 0
    """Requests of which a record came back."""
    timeouts: int = 0
    """Requests that timed out."""
    doubled: int = 0
    """Records that the destination stored in a request that timed out: it will have them again."""
    answers: int = 0
    """Requests answered, or timed out."""
    answer_time: int = 0
    """Sum of the times between sending and answer."""
    exhausted: int = 0
    """Requests that failed as often as they may, and writes that waited as long as they may: Flink
    fails the job."""
    partition: int = 0
    """The one to which a producer's records go."""
    produced: int = 0
    """Bytes that have gone to it in one turn."""
    drained: int = 0
    """The one with which its next request begins."""
    memory: int = 0
    """Bytes taken of its pool."""
    answered: int = NEVER
    """When the last request in flight is answered."""
    blocked: int = NEVER
    """When the write that waits for memory fails."""
    used_batches: int = 0
    """Batches that ever held something."""
    free_batch: int = NONE
    """Place of a batch that is free again."""
    throttled: int = 0
    """Records that the destination took no more of, as its limit was reached."""
    send_time: int = NEVER
    """Time between sending and answer of the request that was answered last
    (``currentSendTime``)."""


@dataclass(slots=True)
class Destination:
    """What answers the requests of a sink, of one subtask or of all."""

    records: Bucket = field(default_factory=Bucket)
    """Records that it takes."""
    requests: Bucket = field(default_factory=Bucket)
    """Requests that it takes."""
    distribution: int = 0
    """Of the time in which it answers (:mod:`flowcontrol.protocol.service`); constant."""
    variation: int = 0
    """Coefficient of variation of that, millionths; constant."""
    record_ns: int = 0
    """What each record of a request adds to it, nanoseconds; constant."""
    kb_ns: int = 0
    """What each 1,000 bytes add to it, nanoseconds; constant."""
    request_errors: int = 0
    """Share of the requests that fail as a whole, millionths; constant."""
    record_errors: int = 0
    """Share of the records that fail, millionths; constant."""
    empty_answers: int = 0
    """Share of the calls of an operator that have no result, millionths; constant."""


class Requests(NamedTuple):
    """A sink writer as the rules see it."""

    settings: WriterSettings  # What it may do
    writer: SinkWriter  # How far it is
    entries: Sequence[Entry]  # As many records as there can be in buffer, requests and hand
    slots: Sequence[Request]  # As many requests as there can be in flight
    batches: Sequence[Batch] = ()  # As many batches as the pool of a producer has room for
    queues: Sequence[BatchQueue] = ()  # By partition
