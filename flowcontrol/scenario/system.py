"""Whose flow control a scenario asks for: a preset's name, or transport and throttle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.models import SystemSpec
from flowcontrol.scenario.problems import key_path, known, show

__all__ = ["SYSTEMS", "THROTTLES", "TRANSPORTS", "read_system"]

SYSTEMS: Final = (
    "flink",
    "flink-2",
    "flink-1.4",
    "storm",
    "storm-1",
    "storm-2",
    "jstorm",
    "jstorm-2.1",
    "jstorm-2.4",
    "heron",
    "spark-streaming",
    "structured-streaming",
    "hazelcast-jet",
    "pulsar",
    "rabbitmq",
    "risingwave",
    "arroyo",
    "kafka-streams",
    "reactive-streams",
    "unbounded",
)
"""Names of presets; the first is emulated."""

TRANSPORTS: Final = (
    "credit",
    "tcp",
    "local",
    "chained",
    "blocking_queue",
    "half_return_credit",
    "batched_credit",
    "cumulative_credit",
    "rate_window",
    "bdp_window",
    "hop_hysteresis",
    "unbounded",
)
"""Ways to move data and grants; the first is emulated."""

THROTTLES: Final = (
    "none",
    "global_hysteresis",
    "stepwise_sleep",
    "pid",
    "pid_rate",
    "static_admission",
    "aimd_rate",
    "frontier_lag",
)
"""What slows a source besides; the first is emulated."""


def read_system(raw: object, problems: list[Problem]) -> SystemSpec:
    """Read ``system``: a name, or ``{transport: ..., throttle: ...}``.

    Parameters
    ----------
    raw : object
        What the file says.
    problems : list of Problem
        Grows by everything that is wrong.

    Returns
    -------
    SystemSpec
        Credits without a throttle: the one system that is emulated yet.
    """
    if not isinstance(raw, Mapping):
        _check(raw, SYSTEMS, "system", ["system"], problems)
        return SystemSpec()
    for key in raw:
        if key not in {"transport", "throttle"}:
            text = known(str(key), ["transport", "throttle"], "key")
            problems.append(Problem(key_path(["system", str(key)]), text))
    transport = raw.get("transport", TRANSPORTS[0])
    _check(transport, TRANSPORTS, "transport", ["system", "transport"], problems)
    throttle = raw.get("throttle", THROTTLES[0])
    place = ["system", "throttle"]
    if isinstance(throttle, Mapping):
        throttle, place = throttle.get("name"), [*place, "name"]
    _check(throttle, THROTTLES, "throttle", place, problems)
    return SystemSpec()


def _check(
    value: object, names: Sequence[str], kind: str, place: Sequence[str], problems: list[Problem]
) -> None:
    """Refuse what is not known, and what is known but not emulated yet."""
    if value == names[0]:
        return
    if not isinstance(value, str):
        text = f"{show(value)} is not the name of a {kind}: write {names[0]}"
    elif value in names:
        text = f"{value!r} is not emulated yet: only {names[0]!r} is"
    else:
        text = known(value, names, kind)
    problems.append(Problem(key_path(place), text))
