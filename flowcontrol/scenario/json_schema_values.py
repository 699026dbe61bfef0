"""JSON schemas of what is read by hand: the system, and Flink's options in Flink's syntax.

Made from the tables that the readers use.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from flowcontrol.scenario.fields import MEMORY_TEXT, UNIT
from flowcontrol.scenario.option_table import (
    ALIASES,
    MAX_DURATION_US,
    MAX_SEGMENT_BYTES,
    MIN_SEGMENT_BYTES,
    OPTIONS,
    Option,
)
from flowcontrol.scenario.parts_table import THROTTLE_PARTS, TRANSPORT_PARTS, Parameter, Part
from flowcontrol.scenario.presets import ALIASES as SYSTEM_ALIASES
from flowcontrol.scenario.presets import PRESETS
from flowcontrol.scenario.system import THROTTLE_ALIASES
from flowcontrol.scenario.units import DURATION_PATTERN, LONG_MAX

Schema = dict[str, Any]

DURATION_TEXT: Final[Schema] = {
    "type": "string",
    "pattern": DURATION_PATTERN,
    "patternErrorMessage": "Write a whole number and a unit, as 100ms, 1 s or 5 min.",
}

INT_MAX: Final = 2**31 - 1
EXACT: Final = float(1 << 53)
"""Bound of a parameter that has none of its own."""


def _names(texts: Mapping[str, str], aliases: Mapping[str, str]) -> Schema:
    """Return the schema of a name, with what each name means."""
    meanings = {**texts, **{alias: texts[name] for alias, name in aliases.items()}}
    return {"enum": list(meanings), "enumDescriptions": list(meanings.values())}


# ---------------------------------------------------------------- system


def system_schema() -> Schema:
    """Return the schema of ``system``: the name of a preset, or transport and throttle."""
    meanings = {name: f"{preset.version}: {preset.meaning}" for name, preset in PRESETS.items()}
    parts = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "transport": _part("transport", TRANSPORT_PARTS, {}),
            "throttle": _part("throttle", THROTTLE_PARTS, THROTTLE_ALIASES),
        },
    }
    return {"anyOf": [_names(meanings, SYSTEM_ALIASES), parts]}


def _part(kind: str, parts: Mapping[str, Part], aliases: Mapping[str, str]) -> Schema:
    """Return the schema of a transport or a throttle: its name, or a mapping with parameters."""
    meanings = {name: part.meaning for name, part in parts.items()}
    names = _names(meanings, aliases)
    rules = [
        {
            "if": {"properties": {"name": {"const": name}}},
            "then": {
                "properties": {
                    "name": True,
                    **{
                        key: _parameter(parameter)
                        for key, parameter in parts[aliases.get(name, name)].parameters.items()
                    },
                },
                "additionalProperties": False,
            },
        }
        for name in (*parts, *aliases)
    ]
    spelled = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": names},
        "allOf": rules,
    }
    return {"description": f"the {kind}; default {next(iter(parts))}", "anyOf": [names, spelled]}


def _parameter(parameter: Parameter) -> Schema:
    number: Schema = {
        "type": "integer" if parameter.is_whole else "number",
        "minimum": parameter.least,
        UNIT: parameter.unit,
    }
    if parameter.most < EXACT:
        number["maximum"] = parameter.most
    text = {"description": parameter.meaning, "default": parameter.default}
    if parameter.unit == "bytes":
        return text | {"anyOf": [MEMORY_TEXT, number]}
    return text | number


# ---------------------------------------------------------------- Flink's options


def options_schema() -> Schema:
    """Return the schema of ``options``: Flink's keys, old names too, in Flink's value syntax."""
    properties = {key: _option(option) for key, option in OPTIONS.items()}
    for old, key in ALIASES.items():
        text = f"old name of {key}"
        properties[old] = properties[key] | {"description": text, "deprecationMessage": text}
    return {"additionalProperties": False, "properties": properties}


def _option(option: Option) -> Schema:
    text = option.meaning
    if option.effect == "none":
        text += "; nothing that is emulated depends on it"
    elif option.effect == "refused":
        text += "; not emulated, so only the default is accepted"
    return {"description": text, "anyOf": list(_values(option))}


def _values(option: Option) -> Iterable[Schema]:
    """Yield the forms of an option's value: Flink's own file has text only, YAML numbers too."""
    kind, limits = option.kind, option.limits
    if kind == "boolean":
        yield {"type": "boolean"}
        yield _text("([tT][rR][uU][eE]|[fF][aA][lL][sS][eE])")
    elif kind == "choice":
        words = (*limits["words"], *limits.get("also", ()))
        off = (False,) if "off" in words else ()  # YAML takes off for a truth value
        yield {"enum": [*words, *off]}
        yield _text("|".join("".join(map(_either, word)) for word in words))
    elif kind == "decimal":
        edge = "minimum" if limits.get("is_least_allowed", True) else "exclusiveMinimum"
        bounds = {edge: limits.get("least", 0), "maximum": limits["most"]}
        yield {"type": "number", **bounds, UNIT: "a number"}
        yield _text(r"[0-9]*\.?[0-9]*")
    elif kind == "duration":
        least = limits.get("least_us", 0)
        low, most = -1 if least < 0 else least // 1000, MAX_DURATION_US // 1000
        yield DURATION_TEXT
        yield {"type": "integer", "minimum": low, "maximum": most, UNIT: "ms"}
        if least < 0:
            yield _text(r"-1\s*(ms)?")
    elif kind == "memory":
        low, high = limits.get("least", 0), limits.get("most", LONG_MAX)
        yield MEMORY_TEXT
        yield {"type": "integer", "minimum": low, "maximum": high, UNIT: "bytes"}
    elif kind == "page":
        first, last = MIN_SEGMENT_BYTES.bit_length(), MAX_SEGMENT_BYTES.bit_length()
        yield MEMORY_TEXT
        yield {"enum": [1 << bits for bits in range(first - 1, last)], UNIT: "bytes"}
    elif kind == "share":
        yield {"type": "number", "minimum": 0, "exclusiveMaximum": 1, UNIT: "a share"}
        yield _text(r"[0-9]*\.?[0-9]*")
    else:
        low, high = limits.get("least", 0), limits.get("most", INT_MAX)
        yield {"type": "integer", "minimum": low, "maximum": high, UNIT: "a whole number"}
        yield _text("-?[0-9]+" if low < 0 else "[0-9]+")


def _text(pattern: str) -> Schema:
    return {"type": "string", "pattern": rf"^\s*({pattern})\s*$"}


def _either(letter: str) -> str:
    return f"[{letter}{letter.upper()}]" if letter.isalpha() else letter
