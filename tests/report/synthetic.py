"""Made-up runs that look like real ones, with every column of the tables filled."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flowcontrol.records import RESULTS
from flowcontrol.scenario import Scenario, parse_scenario

PHASES = {0: 1200, 20: 300, 40: 1200, 60: 300, 80: 1200}
RECORDS_PER_BUFFER = 20
POOL, EXCLUSIVE, FLOATING = 26, 16, 10

EXPERIMENT = {
    "schema": 1,
    "name": "experiment",
    "duration_s": 100,
    "round_ms": 200,
    "sample_interval_s": 1,
    "options": {
        "taskmanager.memory.segment-size": "4kb",
        "taskmanager.network.memory.buffers-per-channel": EXCLUSIVE,
        "taskmanager.network.memory.floating-buffers-per-gate": FLOATING,
    },
    "stages": [
        {
            "name": "producer",
            "record_bytes": 200,
            "emit_rate": [{"at_s": 0, "rate": 600}, {"at_s": 40, "rate": 1000}],
        },
        {
            "name": "consumer",
            "service_rate": [{"at_s": at, "rate": rate} for at, rate in PHASES.items()],
        },
    ],
    "edges": [{"from": "producer", "to": "consumer", "partitioner": "rebalance"}],
}


def experiment() -> tuple[dict[str, pa.Table], Scenario]:
    """Return the classic experiment: a consumer that slows down twice and its producer."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in RESULTS}
    room = (POOL + EXCLUSIVE + FLOATING) * RECORDS_PER_BUFFER
    emitted = taken = 0
    for second in range(100):
        want = 600 if second < 40 else 1000
        able = PHASES[second // 20 * 20]
        out = min(want, able + room - (emitted - taken))
        into = min(able, emitted + out - taken)
        emitted, taken = emitted + out, taken + into
        held = max(emitted - taken, 20)
        blocked, busy = 1000 * (want - out) / want, 1000 * into / able
        buffers = held // RECORDS_PER_BUFFER
        at_receiver = min(buffers, EXCLUSIVE + FLOATING)
        backlog = buffers - at_receiver
        t_s = second + 1.0
        rows["stages"] += [
            _filled(
                "stages", t_s=t_s, stage="producer", records_out=emitted, rate_out=out,
                busy_ms_per_s=40, backpressured_ms_per_s=blocked,
                idle_ms_per_s=max(0, 960 - blocked), out_pool_usage=(backlog + 1) / POOL,
                output_queue_buffers=backlog, output_pool_size=POOL, output_pool_used=backlog + 1,
            ),
            _filled(
                "stages", t_s=t_s, stage="consumer", records_in=taken, rate_in=into,
                busy_ms_per_s=busy, idle_ms_per_s=1000 - busy,
                in_pool_usage=at_receiver / (EXCLUSIVE + FLOATING),
                input_queue_buffers=max(0, at_receiver - 1),
            ),
        ]  # fmt: skip
        rows["channels"].append(
            _filled(
                "channels", t_s=t_s, edge="producer->consumer",
                written=emitted // RECORDS_PER_BUFFER, released=emitted // RECORDS_PER_BUFFER,
                sent=taken // RECORDS_PER_BUFFER + at_receiver,
                consumed=emitted // RECORDS_PER_BUFFER - buffers,
                credit=max(0, 16 - at_receiver), backlog=backlog, queued=max(0, at_receiver - 1),
                in_flight_records=held, in_flight_bytes=held * 200,
            )
        )  # fmt: skip
        wait = 1000 * held / max(1, into)
        rows["latency"].append(
            _filled(
                "latency", t_s=t_s, stage="consumer", kind="record", count=into, mean_ms=wait,
                p50_ms=wait, p90_ms=wait * 1.1, p99_ms=wait * 1.3, max_ms=wait * 1.5,
            )
        )  # fmt: skip
    return _tables(rows), parse_scenario(EXPERIMENT)


def job(
    edges: list[tuple[str, str]], *, parallelism: int = 1, samples: int = 20
) -> tuple[dict[str, pa.Table], Scenario]:
    """Return a run of any job; the last stage in the list of edges is the one that limits."""
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    senders = {sender for sender, _ in edges}
    sources = [name for name in names if name not in {receiver for _, receiver in edges}]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in RESULTS}
    for sample in range(samples):
        t_s = (sample + 1) * 100 / samples
        for name in names:
            limits, is_sink = name == edges[-1][1], name not in senders
            rate = 3000 + 40 * (sample % 5)
            for subtask in range(parallelism):
                rows["stages"].append(
                    _filled(
                        "stages", t_s=t_s, stage=name, subtask=subtask,
                        rate_in=0 if name in sources else rate, records_in=int(rate * t_s),
                        rate_out=0 if is_sink else rate, records_out=int(rate * t_s),
                        busy_ms_per_s=990 if limits else 200,
                        backpressured_ms_per_s=0 if is_sink else 100 * (1 + names.index(name) % 6),
                        idle_ms_per_s=10 if limits else 100, in_pool_usage=0.8, out_pool_usage=0.6,
                        output_pool_size=12, output_pool_used=7,
                    )
                )  # fmt: skip
                if is_sink:
                    rows["latency"].append(
                        _filled(
                            "latency", t_s=t_s, stage=name, subtask=subtask, kind="record",
                            count=100, mean_ms=90, p50_ms=80 + sample, p90_ms=120, p99_ms=190,
                            max_ms=230,
                        )
                    )  # fmt: skip
        for sender, receiver in edges:
            for index in range(parallelism * parallelism):
                rows["channels"].append(
                    _filled(
                        "channels", t_s=t_s, edge=f"{sender}->{receiver}",
                        sender=index // parallelism, receiver=index % parallelism,
                        released=100 * (sample + 1), consumed=100 * (sample + 1) - 9 - index % 4,
                        sent=100 * (sample + 1) - 5, credit=index % 3, backlog=5 + index % 7,
                        in_flight_records=200 + 10 * index, in_flight_bytes=200_000,
                    )
                )  # fmt: skip
    return _tables(rows), _scenario(names, sources, edges, parallelism)


def _scenario(
    names: list[str], sources: list[str], edges: list[tuple[str, str]], parallelism: int
) -> Scenario:
    stages: list[dict[str, Any]] = []
    for name in names:
        rate = {"emit_rate": 10000} if name in sources else {"service_rate": 3200}
        stages.append({"name": name, "parallelism": parallelism, **rate})
    return parse_scenario(
        {
            "schema": 1,
            "name": "made-up",
            "duration_s": 100,
            "stages": stages,
            "edges": [
                {"from": sender, "to": receiver, "partitioner": "rebalance"}
                for sender, receiver in edges
            ],
        }
    )


def _filled(table: str, **figures: Any) -> dict[str, Any]:
    return {**dict.fromkeys(RESULTS[table].names, 0), **figures}


def _tables(rows: dict[str, list[dict[str, Any]]]) -> dict[str, pa.Table]:
    return {
        name: pa.Table.from_pylist(part, schema=RESULTS[name].arrow_schema())
        for name, part in rows.items()
    }
