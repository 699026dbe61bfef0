"""The system of a scenario: the name of a preset, or transport and throttle.

``parts.yaml`` has every transport and throttle with its parameters, ``presets.yaml`` whole systems:
a preset states what differs from the defaults of its parts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, model_serializer

from flowcontrol.errors import Problem
from flowcontrol.scenario.fields import write_number
from flowcontrol.scenario.problems import key_path, known, show
from flowcontrol.scenario.syntax import read_memory, read_table


@dataclass(frozen=True)
class Parameter:
    """One number of a transport or a throttle."""

    default: float  # Value unless a preset or the scenario states another
    unit: str = ""  # Of the value; empty for shares and factors
    # What it is, in general terms; a preset's ``words`` have the names in its system.
    meaning: str = ""
    least: float = 0.0  # least, most: bounds, both allowed
    most: float = float(1 << 53)

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers make sense."""
        return self.unit not in {"", "ms", "records/s"}


@dataclass(frozen=True)
class Part:
    """A transport or a throttle."""

    meaning: str  # What it does
    # By name, as a scenario writes it.
    parameters: dict[str, Parameter] = field(default_factory=dict)
    # Of a transport: its channels have queues of records, rather than buffers of bytes.
    counts_records: bool = False
    # Of a transport: a sender may count on what its receiver grants, so that what is held between
    # the two has a bound.
    has_grants: bool = True
    # Parameters of which the first must not be above the second.
    not_above: Sequence[tuple[str, str]] = ()
    section: str = ""  # Where the reference of other systems has its rules
    # What its system calls each of its messages. Of a transport: ``data`` of a sender, and
    # ``grant``, or ``stop`` and ``go``, of its receiver; one that has none sends none. Of a
    # throttle: by what its controller says (``Controller.spoken``).
    messages: Mapping[str, str] = field(default_factory=dict)
    # The same where its marks are in bytes: another system's names.
    messages_in_bytes: Mapping[str, str] = field(default_factory=dict)
    no_messages: str = ""  # Of a transport: why it has none
    has_log: bool = False  # Of a throttle: its sources read a log, in which due records wait
    needs_ages: bool = False  # Of a throttle: it looks at when the records under way were emitted

    def names(self, values: Mapping[str, float]) -> Mapping[str, str]:
        """Return the names of its messages, where it has such parameters."""
        return self.messages_in_bytes if values.get("high_bytes", 0) > 0 else self.messages


def _parts(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Part]:
    """Return a part for each row of a table."""
    found = {}
    for name, row in rows.items():
        parameters = {key: Parameter(**own) for key, own in row.get("parameters", {}).items()}
        found[name] = Part(**{**row, "parameters": parameters})
    return found


_TABLE: Final = read_table("parts.yaml")
TRANSPORT_PARTS: Final = _parts(_TABLE["transports"])
THROTTLE_PARTS: Final = _parts(_TABLE["throttles"])


@dataclass(frozen=True)
class Preset:
    """A system."""

    version: str  # Whose defaults these are
    transport: str  # transport, throttle: names of parts
    meaning: str  # One sentence
    checkpoints: str  # How it takes checkpoints, or what it does instead
    throttle: str = "none"
    # Modes of ``execution.checkpointing.mode`` that it has barriers for; none: it cannot run a
    # scenario with checkpoints.
    barriers: Sequence[str] = ()
    source: str = ""  # Where the rules and the defaults are from
    # Parameters that differ from the parts' defaults.
    transport_values: dict[str, float] = field(default_factory=dict)
    throttle_values: dict[str, float] = field(default_factory=dict)
    # Flink's own options that are fixed there.
    options: dict[str, str] = field(default_factory=dict)
    # By parameter, its name in the system's own configuration, or that it has none: a part serves
    # several systems and describes its parameters in plain terms.
    words: dict[str, str] = field(default_factory=dict)


PRESETS: Final = {name: Preset(**row) for name, row in read_table("presets.yaml").items()}


@dataclass(frozen=True)
class Beside:
    """How a preset compared with the real system in bench/real_systems."""

    version: str  # Of the real one
    date: str  # Of its runs
    figures: int  # That were compared
    agree: int  # So many of them did

    def __str__(self) -> str:
        return f"{self.agree} of {self.figures} figures agree with {self.version}, {self.date}"


MEASURED: Final = {name: Beside(**row) for name, row in read_table("measured.yaml").items()}
"""By preset; one without follows the rules of its source, and was not compared."""

ALIASES: Final[dict[str, str]] = {"storm": "storm-1", "jstorm": "jstorm-2.1"}
"""Shorter names."""


SYSTEMS: Final = (*PRESETS, *ALIASES)
"""Values of ``system``; the first is the default."""

THROTTLE_ALIASES: Final = {"pid": "pid_rate"}
"""Shorter names of throttles."""

Values = dict[str, float]


class SystemSpec(BaseModel):
    """The system whose flow control is emulated."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    transport: str = "credit"  # How data and grants move between two stages
    # Its parameters, all of them (:mod:`flowcontrol.scenario.system`).
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
