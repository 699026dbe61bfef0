"""Whose flow control a scenario asks for: a preset's name, or transport and throttle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.models import SystemSpec
from flowcontrol.scenario.parts_table import THROTTLE_PARTS, TRANSPORT_PARTS, Part
from flowcontrol.scenario.presets import PRESETS
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
"""Names of presets."""

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
"""Ways to move data and grants; the first is the default."""

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
"""What slows a source besides; the first is the default."""


EMULATED_SYSTEMS: Final = ("flink", "flink-1.4")
EMULATED_TRANSPORTS: Final = ("credit", "tcp")
EMULATED_THROTTLES: Final = ("none",)


def read_system(raw: object, problems: list[Problem]) -> SystemSpec:
    """Read ``system``: a name, or ``{transport: ..., throttle: ...}``.

    Parameters
    ----------
    raw : object
        What the file says. A part is its name, or a mapping of ``name`` and parameters.
    problems : list of Problem
        Grows by everything that is wrong.

    Returns
    -------
    SystemSpec
        With every parameter filled in; what is wrong is left at its default.
    """
    if not isinstance(raw, Mapping):
        if _check(raw, SYSTEMS, EMULATED_SYSTEMS, "system", ["system"], problems):
            preset = PRESETS[str(raw)]
            values = _defaults(TRANSPORT_PARTS[preset.transport]) | preset.transport_values
            return SystemSpec(transport=preset.transport, transport_values=values)
        return SystemSpec()
    for key in raw:
        if key not in {"transport", "throttle"}:
            text = known(str(key), ["transport", "throttle"], "key")
            problems.append(Problem(key_path(["system", str(key)]), text))
    transport, values = _read_part(raw, "transport", problems)
    throttle, others = _read_part(raw, "throttle", problems)
    return SystemSpec(
        transport=transport, transport_values=values, throttle=throttle, throttle_values=others
    )


def _read_part(
    raw: Mapping[Any, Any], kind: str, problems: list[Problem]
) -> tuple[str, dict[str, float]]:
    """Read a transport or a throttle: its name and all its parameters."""
    names: Sequence[str]
    emulated: Sequence[str]
    if kind == "transport":
        names, emulated, parts = TRANSPORTS, EMULATED_TRANSPORTS, TRANSPORT_PARTS
    else:
        names, emulated, parts = THROTTLES, EMULATED_THROTTLES, THROTTLE_PARTS
    given = raw.get(kind, names[0])
    place, stated = ["system", kind], {}
    if isinstance(given, Mapping):
        place = [*place, "name"]
        stated = {key: value for key, value in given.items() if key != "name"}
        given = given.get("name")
    if not _check(given, names, emulated, kind, place, problems):
        return names[0], {}
    part = parts[str(given)]
    values = _defaults(part)
    for key, value in stated.items():
        text = _refusal(part, str(given), str(key), value)
        if text:
            problems.append(Problem(key_path(["system", kind, str(key)]), text))
        else:
            values[str(key)] = float(value)
    return str(given), values


def _refusal(part: Part, name: str, key: str, value: object) -> str:
    """Return why a parameter cannot be taken; empty if it can."""
    parameter = part.parameters.get(key)
    if parameter is None:
        if not part.parameters:
            return f"{name!r} has no parameters: leave {key!r} out"
        return known(key, part.parameters, f"parameter of {name!r}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{show(value)} is not a number: state {parameter.unit or 'a share or factor'}"
    if not parameter.least <= value <= parameter.most:
        return f"{value} must be from {parameter.least:g} to {parameter.most:g} {parameter.unit}"
    return ""


def _defaults(part: Part) -> dict[str, float]:
    return {key: float(parameter.default) for key, parameter in part.parameters.items()}


def _check(
    value: object,
    names: Sequence[str],
    emulated: Sequence[str],
    kind: str,
    place: Sequence[str],
    problems: list[Problem],
) -> bool:
    """Tell whether a name is emulated; refuse what is not known, and what is not emulated yet."""
    if value in emulated:
        return True
    if not isinstance(value, str):
        text = f"{show(value)} is not the name of a {kind}: write {names[0]}"
    elif value in names:
        only = " and ".join(map(repr, emulated))
        verb = "are" if len(emulated) > 1 else "is"
        text = f"{value!r} is not emulated yet: only {only} {verb}"
    else:
        text = known(value, names, kind)
    problems.append(Problem(key_path(place), text))
    return False
