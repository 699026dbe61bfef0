"""Defaults of the writers of real connectors, which ``requests.like`` takes."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Literal, NamedTuple

Style = Literal["async", "blocking", "producer", "await", "lookup"]
Growth = Literal["multiplied", "linear", "elasticsearch"]

HALF: Final = Fraction(1, 2)


class RetryDefaults(NamedTuple):
    """What a connector does with what failed."""

    attempts: int = 0
    delay_ms: int = 0
    growth: Growth = "multiplied"
    multiplier: Fraction = Fraction(1)
    max_delay_ms: int | None = None
    whole: bool = False


class Defaults(NamedTuple):
    """What a connector states; None: it has no such limit, or its style has no such key."""

    style: Style
    batch_records: int | None = None
    batch_bytes: int | None = None
    buffer_s: Fraction | None = None
    in_flight: int | None = None
    buffered: int | None = None
    record_bytes_max: int | None = None
    decrease: Fraction = HALF
    retry: RetryDefaults = RetryDefaults()
    buffered_bytes: int | None = None
    timeout_s: int | None = 600
    max_block_s: int | None = None


def _async(
    batch_records: int, buffered: int, batch_bytes: int, record_bytes_max: int, decrease: Fraction
) -> Defaults:
    return Defaults(
        "async", batch_records, batch_bytes, Fraction(5), 50, buffered, record_bytes_max, decrease
    )


_JDBC_RETRY: Final = RetryDefaults(attempts=3, delay_ms=1000, growth="linear", whole=True)

_KAFKA: Final = Defaults(
    "producer",
    batch_bytes=16_384,
    buffer_s=Fraction(5, 1000),
    in_flight=5,
    record_bytes_max=1_048_576,
    retry=RetryDefaults(2**31 - 1, 100, multiplier=Fraction(2), max_delay_ms=1000, whole=True),
    buffered_bytes=33_554_432,
    timeout_s=120,
    max_block_s=60,
)

CONNECTORS: Final[dict[str, Defaults]] = {
    "kinesis": _async(500, 10_000, 5_242_880, 1_048_576, Fraction(99, 100)),
    "firehose": _async(500, 10_000, 4_194_304, 1_024_000, HALF),
    "dynamodb": _async(25, 10_000, 16_000_000, 400_000, HALF),
    "sqs": _async(10, 5_000, 256_000, 256_000, HALF),
    "elasticsearch-8": _async(500, 10_000, 5_242_880, 1_048_576, HALF),
    "http": _async(500, 10_000, 5_242_880, 1_048_576, HALF),
    "jdbc": Defaults("blocking", 5000, retry=_JDBC_RETRY),
    "jdbc-sql": Defaults("blocking", 100, buffer_s=Fraction(1), retry=_JDBC_RETRY),
    "elasticsearch-7": Defaults("blocking", 1000, 5_242_880),
    "elasticsearch-7-sql": Defaults("blocking", 1000, 2_097_152, buffer_s=Fraction(1)),
    "opensearch": Defaults("blocking", 1000, 5_242_880),
    "kafka": _KAFKA,
    "async-io": Defaults("await", in_flight=100, timeout_s=None),
    "async-lookup": Defaults("await", in_flight=100, timeout_s=180),
}
"""By name, in their versions of 2026.

Asynchronous ones: ``KinesisStreamsSinkBuilder`` and the others; http is the one of getindata. JDBC:
``JdbcExecutionOptions``, in SQL ``JdbcConnectorOptions``. Elasticsearch 6 and 7, OpenSearch 1 and
2: ``ElasticsearchSinkBuilderBase`` and ``OpensearchSinkBuilder`` leave bytes to their
``BulkProcessor``; in SQL ``ElasticsearchConnectorOptions``. Kafka: ``ProducerConfig`` of its
version 4.0. Operators: ``AsyncDataStream``, and ``ExecutionConfigOptions`` of lookup joins in SQL.
"""

Connector = Literal[
    "kinesis", "firehose", "dynamodb", "sqs", "elasticsearch-8", "http", "jdbc", "jdbc-sql",
    "elasticsearch-7", "elasticsearch-7-sql", "opensearch", "kafka", "async-io", "async-lookup",
]  # fmt: skip
