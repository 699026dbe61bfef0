"""The systems whose flow control can be emulated, as text: names, parameters, sources."""

from __future__ import annotations

from flowcontrol.report.numbers import number
from flowcontrol.scenario.parts_table import THROTTLE_PARTS, TRANSPORT_PARTS, Parameter
from flowcontrol.scenario.presets import PRESETS
from flowcontrol.scenario.system import preset_system

__all__ = ["describe_system", "list_systems"]


def list_systems() -> str:
    """Return a line per preset: its name, what it stands for, its parts."""
    rows = [("NAME", "VERSION", "TRANSPORT", "THROTTLE")]
    rows += [(name, p.version, p.transport, p.throttle) for name, p in PRESETS.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def describe_system(name: str) -> str:
    """Return what a preset does, its parameters with their values, and where they are from.

    Raises
    ------
    KeyError
        If there is no such preset.
    """
    preset = PRESETS[name]
    is_bounded = preset_system(name).is_bounded
    memory = "bounded" if is_bounded else "not bounded by the system itself"
    lines = [f"{name}: {preset.version}", f"  {preset.meaning}", f"  memory: {memory}"]
    for kind, part, table, values in (
        ("transport", preset.transport, TRANSPORT_PARTS, preset.transport_values),
        ("throttle", preset.throttle, THROTTLE_PARTS, preset.throttle_values),
    ):
        lines.append(f"  {kind} {part}: {table[part].meaning}")
        for key, parameter in table[part].parameters.items():
            lines.append(f"    {key} = {_value(parameter, values.get(key))}  {parameter.meaning}")
    lines += [f"  {key} = {value}" for key, value in preset.options.items()]
    if preset.source:
        lines.append(f"  {preset.source}")
    return "\n".join(lines)


def _value(parameter: Parameter, value: float | None) -> str:
    text = number(parameter.default if value is None else value)
    return f"{text} {parameter.unit}".rstrip()
