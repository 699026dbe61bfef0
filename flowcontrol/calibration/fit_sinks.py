"""From the metrics of a Flink sink's writer to the requests of a stage.

Flink's ``SinkWriterMetricGroup`` counts what was sent, errors, and the time of the last request. It
shows neither the size of a request nor how many are in flight: these come from the connector.
"""

from __future__ import annotations

from statistics import fmean, stdev
from typing import Any, Final

from flowcontrol.analysis.limits import NOTICEABLE
from flowcontrol.calibration import rates
from flowcontrol.calibration.draft import Draft
from flowcontrol.calibration.readings import FlinkJob, Vertex
from flowcontrol.scenario.connectors import CONNECTORS

_WORDS: Final = {
    "kafka": "kafka",
    "kinesis": "kinesis",
    "firehose": "firehose",
    "dynamo": "dynamodb",
    "sqs": "sqs",
    "elastic": "elasticsearch-8",
}
"""Words in the name of a vertex, and the connector they stand for."""

_USUAL: Final = "http"
"""The connector whose sizes are those of most asynchronous sinks."""

_LIMITING: Final = 0.9
"""Share of the records that may be in flight, from which on the requests limit."""


def requests_of(draft: Draft, job: FlinkJob, vertex: Vertex) -> dict[str, Any]:
    """Return ``requests`` of a sink whose writer reports its sends; nothing of another stage.

    What fails in a sink that blocks its senders is over a limit of the destination, else an error.
    ``service_rate`` is null beside it where requests limit: the busy time is then a wait.
    """
    key = f"stages.{vertex.stage}.requests"
    sent = vertex.total(lambda one: one.growth("records_sent"))
    of_requests = _times(vertex, "request_ms")
    times = of_requests or _times(vertex, "send_ms")
    if job.outputs(vertex.stage) or not sent or not times:
        return {}
    like = next((one for word, one in _WORDS.items() if word in vertex.name.lower()), _USUAL)
    is_named = like != _USUAL
    why = f"the vertex is called {vertex.name!r}" if is_named else "no metric names the connector"
    draft.assumed(f"{key}.like", like, f"{why}: sizes and requests in flight are its defaults")
    latency = fmean(times)
    error = stdev(times) / len(times) ** 0.5 / latency if len(times) > 1 else None
    origin = "KafkaProducer.request-latency-avg" if of_requests else "currentSendTime"
    text = f"mean of {origin} over subtasks and polls"
    found: dict[str, Any] = {"like": like}
    found["latency_ms"] = draft.measured(
        f"{key}.latency_ms", max(0.001, round(rates.rounded(latency, 3), 3)), text, error
    )
    failed = min(1.0, (vertex.total(lambda one: one.growth("send_errors")) or 0.0) / sent)
    elapsed_ms = fmean(subtask.elapsed_ms for subtask in vertex.subtasks)
    blocked = [
        one.rate("blocked_ms") or 0.0
        for edge in job.inputs(vertex.stage)
        for one in job.stage(edge.sender).subtasks
    ]
    is_slow = max(blocked) > 1000 * NOTICEABLE  # Its busy time comes and goes with its bursts
    if 0 < failed < 1 and is_slow and CONNECTORS[like].style != "producer":  # It has no limit
        text = "d (numRecordsSend - numRecordsSendErrors) / time, of a sink that blocks its senders"
        rate = rates.rounded(1000 * sent * (1 - failed) / elapsed_ms, 4)
        rate = draft.measured(f"{key}.limit.records_per_s", rate, text, 1 / sent)
        found["limit"] = {"records_per_s": rate}
    elif failed > 0:
        text = "d numRecordsSendErrors / d numRecordsSend"
        share = draft.measured(f"{key}.errors.record", rates.rounded(failed, 3), text, 1 / sent)
        found["errors"] = {"record": share}
    stage: dict[str, Any] = {"requests": found}
    one, in_flight = CONNECTORS[like], sent * latency / elapsed_ms  # Little's law
    most = (one.in_flight or 0) * (one.batch_records or 0) * vertex.parallelism
    if "limit" in found or (is_slow and in_flight >= _LIMITING * most > 0):
        why = "its writer waits for requests: the busy time says nothing of a record"
        stage["service_rate"] = draft.assumed(f"stages.{vertex.stage}.service_rate", None, why)
    elif is_slow and most:
        draft.notes.append(
            f"{vertex.stage} blocks its senders with {in_flight:,.0f} of the {most:,} records in "
            f"flight that {like} allows: its thread limits, or its connector is configured for less"
        )
    return stage


def _times(vertex: Vertex, name: str) -> list[float]:
    """Return what a gauge says of a time at each poll, but for 0: nothing was sent yet."""
    readings = (one for subtask in vertex.subtasks for one in subtask.readings)
    return [one.values[name] for one in readings if one.values.get(name)]
