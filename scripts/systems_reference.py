"""docs/reference/systems.md: every system, transport and throttle, made from the catalogue.

    python scripts/systems_reference.py            print the page
    python scripts/systems_reference.py --write    put it into docs/reference/systems.md

The catalogue is ``presets.yaml`` and ``parts.yaml`` of ``flowcontrol/scenario``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from scripts.reference import FOLDER, ROOT, serve, table

if TYPE_CHECKING:
    from flowcontrol.scenario.system import Part, Preset

PAGE = FOLDER / "systems.md"

HEAD = """\
# Systems

<!-- made by scripts/systems_reference.py: change the catalogue, then run it with --write -->

`system: NAME` in a scenario takes the defaults of one version of a system; `--set system=NAME` does
so for one run. A system has two parts: a **transport** moves data and grants between two stages,
and a **throttle** slows the sources in addition. You can choose each part separately. A part is a
name, or a mapping with its name and parameters. The defaults are Flink's credits, no throttle, and
each part's parameters below:

```yaml
system:
  transport: {name: blocking_queue, slots: 256}
  throttle: {name: global_hysteresis, slots: 256, high: 0.8, low: 0.2}
```

Both clocks run every system. `flowcontrol systems NAME` prints what is here.

"""

SOURCES = """
A throttled source counts as blocked. Under `pid_rate`, `static_admission` and `long_batches` a
source reads from a log such as Kafka's: records that it does not emit wait there, which counts as
latency. Under the other throttles it loses records that fall due meanwhile, as it does when a full
buffer blocks it; a source with an `arrival_rate` loses nothing. If a heap would overflow
(`heap_bytes` of the transport `unbounded`), the run reports the time and continues.
"""


def page() -> str:
    """Return the page."""
    from flowcontrol.scenario.system import ALIASES, PRESETS, THROTTLE_PARTS, TRANSPORT_PARTS

    names = {name: [alias for alias, of in ALIASES.items() if of == name] for name in PRESETS}
    rows = [
        (
            ", ".join(f"`{word}`" for word in (name, *names[name])),
            f"[{preset.version}](#{anchor(name)})",
            f"`{preset.transport}`",
            f"`{preset.throttle}`",
            preset.meaning,
        )
        for name, preset in PRESETS.items()
    ]
    heads = ("system", "defaults of", "transport", "throttle", "meaning")
    parts = [f"{HEAD}{table(heads, rows)}{SOURCES}"]
    for title, own in (("Transports", TRANSPORT_PARTS), ("Throttles", THROTTLE_PARTS)):
        parts.append(f"## {title}\n\n{parts_table(title, own)}")
    parts.append("## Each system's defaults\n")
    parts += [system(name, preset) for name, preset in PRESETS.items()]
    return "\n".join(parts)


def anchor(name: str) -> str:
    """Return what links to a system's section end in."""
    return name.replace(".", "")


def parts_table(title: str, parts: Mapping[str, Part]) -> str:
    """Return the parts of one kind with their parameters."""
    made: list[tuple[str, ...]] = []
    for name, part in parts.items():
        made.append((f"`{name}`", "", "", "", part.meaning))
        made += [
            ("", f"`{key}`", f"`{plain(parameter.default)}`", parameter.unit, parameter.meaning)
            for key, parameter in part.parameters.items()
        ]
    return table((title.lower()[:-1], "parameter", "default", "unit", "meaning"), made)


def system(name: str, preset: Preset) -> str:
    """Return the section of a system: its parameters in its own terms, and where they are from."""
    from flowcontrol.scenario.system import MEASURED, preset_system

    memory = "bounded" if preset_system(name).is_bounded else "not bounded by the system itself"
    source = f" Source: <{preset.source}>." if preset.source else ""
    has = "Checkpoints" if preset.barriers else "No checkpoints by barriers"
    text = f"### {name}\n\n{preset.version}: {preset.meaning}. Memory: {memory}. "
    beside = MEASURED.get(name, "not measured")
    text += f"{has}: {preset.checkpoints}. Beside the real one: {beside}.{source}\n"
    rows = [
        *parameters(preset),
        *((f"`{k}`", f"`{v}`", "fixed") for k, v in preset.options.items()),
    ]
    if not rows:
        return text
    return f"{text}\n{table(('parameter', 'value', 'in the system'), rows)}"


def parameters(preset: Preset) -> Iterator[tuple[str, str, str]]:
    """Yield each parameter of a system with its value and what the system itself calls it."""
    from flowcontrol.scenario.system import THROTTLE_PARTS, TRANSPORT_PARTS

    for part, values in (
        (TRANSPORT_PARTS[preset.transport], preset.transport_values),
        (THROTTLE_PARTS[preset.throttle], preset.throttle_values),
    ):
        for key, parameter in part.parameters.items():
            value = plain(values.get(key, parameter.default))
            meaning = preset.words.get(key, parameter.meaning)
            yield f"`{key}`", f"{value} {parameter.unit}".rstrip(), meaning


def plain(value: float) -> str:
    """Return a number as a file has it: ``104857600``, ``0.8``."""
    return str(int(value)) if value == int(value) else str(value)


def main(arguments: list[str]) -> int:
    """Print the page, or write it."""
    return serve(page, PAGE, arguments)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
