"""``flowcontrol systems``: the systems that a scenario can select: names, parameters, sources."""

import argparse
import sys
import textwrap
from typing import Final

from flowcontrol.cli.command import refuse
from flowcontrol.report.markup import number
from flowcontrol.scenario.system import (
    MEASURED,
    PRESETS,
    THROTTLE_PARTS,
    TRANSPORT_PARTS,
    Parameter,
    preset_system,
)

_WIDTH: Final = 100
"""Characters of a line; longer parameters are wrapped and indented."""


def list_systems() -> str:
    """Return a line per preset: name, version, parts."""
    rows = [("NAME", "VERSION", "TRANSPORT", "THROTTLE")]
    rows += [(name, p.version, p.transport, p.throttle) for name, p in PRESETS.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def describe_system(name: str) -> str:
    """Return what a preset does, its parameters in its own terms, and its source.

    Raises KeyError if there is no such preset.
    """
    preset = PRESETS[name]
    is_bounded = preset_system(name).is_bounded
    memory = "bounded" if is_bounded else "not bounded by the system itself"
    lines = [f"{name}: {preset.version}", f"  {preset.meaning}", f"  memory: {memory}"]
    has = "checkpoints" if preset.barriers else "no checkpoints by barriers"
    lines.append(f"  {has}: {preset.checkpoints}")
    for kind, part, table, values in (
        ("transport", preset.transport, TRANSPORT_PARTS, preset.transport_values),
        ("throttle", preset.throttle, THROTTLE_PARTS, preset.throttle_values),
    ):
        lines.append(f"  {kind} {part}: {table[part].meaning}")
        for key, parameter in table[part].parameters.items():
            meaning = preset.words.get(key, parameter.meaning)
            lines.append(f"    {key} = {_value(parameter, values.get(key))}  {meaning}")
    lines += [f"  {key} = {value}" for key, value in preset.options.items()]
    beside = MEASURED.get(name, "not measured: it follows the rules of its source")
    lines.append(f"  beside the real one: {beside}")
    if preset.source:
        lines.append(f"  {preset.source}")
    return "\n".join(map(_wrapped, lines))


def _wrapped(line: str) -> str:
    """Wrap a line between words; the following lines are indented further."""
    indent = " " * (len(line) - len(line.lstrip()) + 6)
    return textwrap.fill(
        line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _value(parameter: Parameter, value: float | None) -> str:
    text = number(parameter.default if value is None else value)
    return f"{text} {parameter.unit}".rstrip()


def add(parser: argparse.ArgumentParser) -> None:
    """Give the parser its arguments."""
    parser.description = (
        "List the systems that a scenario can select with `system: NAME`, with their parameters, "
        "defaults and sources."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="name of a system; default: all")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List the systems; return the exit status."""
    from flowcontrol.scenario.problems import known
    from flowcontrol.scenario.system import ALIASES, PRESETS

    names = [ALIASES.get(name, name) for name in options.names]
    for name in names:
        if name not in PRESETS:
            return refuse(known(name, [*PRESETS, *ALIASES], "system"))
    texts = [] if names else [list_systems()]
    texts += [describe_system(name) for name in names or PRESETS]
    sys.stdout.write("\n\n".join(texts) + "\n")
    return 0
