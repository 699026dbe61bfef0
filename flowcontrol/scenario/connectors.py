"""Defaults of the writers of real connectors, which ``requests.like`` takes."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Literal, NamedTuple

Style = Literal["async", "blocking"]
Growth = Literal["multiplied", "linear", "elasticsearch"]

HALF: Final = Fraction(1, 2)


class RetryDefaults(NamedTuple):
    """What a connector does with what failed."""

    attempts: int = 0
    delay_ms: int = 0
    growth: Growth = "multiplied"
    multiplier: int = 1
    max_delay_ms: int | None = None
    whole: bool = False


class Defaults(NamedTuple):
    """What a connector states; None: it has no such limit, or its style has no such key."""

    style: Style
    batch_records: int | None = None
    batch_bytes: int | None = None
    buffer_s: int | None = None
    in_flight: int | None = None
    buffered: int | None = None
    record_bytes_max: int | None = None
    decrease: Fraction = HALF
    retry: RetryDefaults = RetryDefaults()


def _async(
    batch_records: int, buffered: int, batch_bytes: int, record_bytes_max: int, decrease: Fraction
) -> Defaults:
    return Defaults(
        "async", batch_records, batch_bytes, 5, 50, buffered, record_bytes_max, decrease
    )


_JDBC_RETRY: Final = RetryDefaults(attempts=3, delay_ms=1000, growth="linear", whole=True)

CONNECTORS: Final[dict[str, Defaults]] = {
    "kinesis": _async(500, 10_000, 5_242_880, 1_048_576, Fraction(99, 100)),
    "firehose": _async(500, 10_000, 4_194_304, 1_024_000, HALF),
    "dynamodb": _async(25, 10_000, 16_000_000, 400_000, HALF),
    "sqs": _async(10, 5_000, 256_000, 256_000, HALF),
    "elasticsearch-8": _async(500, 10_000, 5_242_880, 1_048_576, HALF),
    "http": _async(500, 10_000, 5_242_880, 1_048_576, HALF),
    "jdbc": Defaults("blocking", 5000, retry=_JDBC_RETRY),
    "jdbc-sql": Defaults("blocking", 100, buffer_s=1, retry=_JDBC_RETRY),
    "elasticsearch-7": Defaults("blocking", 1000, 5_242_880),
    "elasticsearch-7-sql": Defaults("blocking", 1000, 2_097_152, buffer_s=1),
    "opensearch": Defaults("blocking", 1000, 5_242_880),
}
"""By name, in their versions of 2026.

Asynchronous ones: ``KinesisStreamsSinkBuilder`` and the others; http is the one of getindata. JDBC:
``JdbcExecutionOptions``, in SQL ``JdbcConnectorOptions``. Elasticsearch 6 and 7, OpenSearch 1 and
2: ``ElasticsearchSinkBuilderBase`` and ``OpensearchSinkBuilder`` leave bytes to their
``BulkProcessor``; in SQL ``ElasticsearchConnectorOptions``.
"""

Connector = Literal[
    "kinesis", "firehose", "dynamodb", "sqs", "elasticsearch-8", "http", "jdbc", "jdbc-sql",
    "elasticsearch-7", "elasticsearch-7-sql", "opensearch",
]  # fmt: skip
