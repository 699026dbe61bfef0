"""The system of a scenario: the name of a preset, or transport and throttle."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, model_serializer

from flowcontrol.errors import Problem
from flowcontrol.scenario.fields import write_number
from flowcontrol.scenario.parts_table import THROTTLE_PARTS, TRANSPORT_PARTS, Parameter, Part
from flowcontrol.scenario.presets import ALIASES, PRESETS
from flowcontrol.scenario.problems import key_path, known, show
from flowcontrol.scenario.units import read_memory

SYSTEMS: Final = (*PRESETS, *ALIASES)
"""Values of ``system``; the first is the default."""

THROTTLE_ALIASES: Final = {"pid": "pid_rate"}
"""Shorter names of throttles."""

Values = dict[str, float]


class SystemSpec(BaseModel):
    """The system whose flow control is emulated."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    transport: str = "credit"  # How data and grants move between two stages
    # Its parameters, all of them (:mod:`flowcontrol.scenario.parts_table`).
    transport_values: dict[str, float] = {}
    throttle: str = "none"  # What else slows a source
    throttle_values: dict[str, float] = {}  # Its parameters, all of them

    @property
    def counts_records(self) -> bool:
        """Whether channels count records and have queues of them, rather than buffers of bytes."""
        return TRANSPORT_PARTS[self.transport].counts_records

    @property
    def is_bounded(self) -> bool:
        """Whether what is held between the stages has a bound, by construction.

        A stop signal is not a bound, since records in flight still arrive, nor is the rate of a
        source; a batch of at most n records is one.
        """
        if self.throttle == "static_admission" and self.throttle_values["max_records"] > 0:
            return True
        return TRANSPORT_PARTS[self.transport].has_grants

    @model_serializer
    def _write(self) -> dict[str, Any]:
        """Return the system as a file has it: a part is a name, or a mapping with parameters."""
        parts = {
            "transport": (self.transport, self.transport_values),
            "throttle": (self.throttle, self.throttle_values),
        }
        return {
            kind: {"name": name, **{key: write_number(values[key]) for key in sorted(values)}}
            if values
            else name
            for kind, (name, values) in parts.items()
        }


def preset_system(name: str) -> SystemSpec:
    """Return the system of a preset, with all parameters.

    Raises KeyError if there is none of that name.
    """
    preset = PRESETS[ALIASES.get(name, name)]
    transport = _defaults(TRANSPORT_PARTS, preset.transport)
    throttle = _defaults(THROTTLE_PARTS, preset.throttle)
    return SystemSpec(
        transport=preset.transport,
        transport_values={**transport, **preset.transport_values},
        throttle=preset.throttle,
        throttle_values={**throttle, **preset.throttle_values},
    )


def read_system(raw: object, problems: list[Problem]) -> SystemSpec:
    """Read ``system``: a name, or ``{transport: ..., throttle: ...}``.

    ``raw``: the value in the file. A part is a name, or a mapping with ``name`` and parameters.

    Returns the system; credits without a throttle if it could not be read.
    """
    if not isinstance(raw, Mapping):
        if _is_known(raw, SYSTEMS, "system", ["system"], problems):
            return preset_system(str(raw))
        return SystemSpec()
    for key in raw:
        if key not in {"transport", "throttle"}:
            text = known(str(key), ["transport", "throttle"], "key")
            problems.append(Problem(key_path(["system", str(key)]), text))
    transport = _read_part(raw.get("transport", "credit"), "transport", TRANSPORT_PARTS, problems)
    throttle = _read_part(raw.get("throttle", "none"), "throttle", THROTTLE_PARTS, problems)
    return SystemSpec(
        transport=transport[0],
        transport_values=transport[1],
        throttle=throttle[0],
        throttle_values=throttle[1],
    )


def _defaults(parts: Mapping[str, Part], name: str) -> Values:
    return {key: float(parameter.default) for key, parameter in parts[name].parameters.items()}


def _read_part(
    raw: object, kind: str, parts: Mapping[str, Part], problems: list[Problem]
) -> tuple[str, Values]:
    """Read a transport or a throttle; the first one of the table where it cannot be read."""
    place, given, name = ["system", kind], {}, raw
    if isinstance(raw, Mapping):
        given = {str(key): value for key, value in raw.items() if key != "name"}
        name, place = raw.get("name"), [*place, "name"]
    first = next(iter(parts))
    if isinstance(name, str) and kind == "throttle":
        name = THROTTLE_ALIASES.get(name, name)
    if not _is_known(name, list(parts), kind, place, problems):
        return first, _defaults(parts, first)
    values = _defaults(parts, str(name))
    for key, value in given.items():
        if key in values:
            try:
                values[key] = _read_value(value, parts[str(name)].parameters[key])
                continue
            except ValueError as error:
                text = str(error)
        elif values:
            text = known(key, list(values), f"parameter of {name}")
        else:
            text = f"unknown parameter {key!r}: {name} has none"
        problems.append(Problem(key_path(["system", kind, key]), text))
    for low, high in parts[str(name)].not_above:
        if values[low] > values[high]:
            text = f"{values[low]:g}: state at most {values[high]:g}, the value of {high}"
            problems.append(Problem(key_path(["system", kind, low]), text))
    return str(name), values


def _read_value(value: object, parameter: Parameter) -> float:
    """Return a parameter's value; ValueError with value, limit and meaning."""
    unit, meaning = f" {parameter.unit}" if parameter.unit else "", parameter.meaning
    if parameter.unit == "bytes" and isinstance(value, str):
        try:
            value = read_memory(value)
        except ValueError as error:
            raise ValueError(f"{error} ({meaning})") from error
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{show(value)} is not a number{' of' + unit if unit else ''}: {meaning}")
    if not parameter.least <= value <= parameter.most:
        limit = f"from {parameter.least:g} to {parameter.most:g}{unit}"
        if parameter.most >= float(1 << 53):
            limit = f"at least {parameter.least:g}{unit}"
        raise ValueError(f"{show(value)}: state {limit} ({meaning})")
    if float(value) != math.floor(value) and parameter.is_whole:
        raise ValueError(f"{show(value)}: state a whole number of{unit} ({meaning})")
    return float(value)


def _is_known(
    value: object, names: Sequence[str], kind: str, place: Sequence[str], problems: list[Problem]
) -> bool:
    """Tell whether a name is known; append a problem otherwise."""
    if isinstance(value, str) and value in names:
        return True
    if isinstance(value, str):
        text = known(value, names, kind)
    else:
        text = f"{show(value)} is not the name of a {kind}: write {names[0]}"
    problems.append(Problem(key_path(place), text))
    return False
