"""A JSON schema of scenario files, for editors: made from the models and the tables.

pydantic makes it of the models; what is read by hand (options, systems, jobs) is added here from
the tables that the readers use. It catches what can be seen in one place. What two keys mean
together is checked when the scenario is read.

Draft 7, the newest that editors with the YAML language server know.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic.json_schema import models_json_schema

from flowcontrol.scenario.fields import KEYS, MEMORY_TEXT, UNIT
from flowcontrol.scenario.jobs import JobPart
from flowcontrol.scenario.models import Cluster, Edge, ScenarioHead
from flowcontrol.scenario.option_table import (
    ALIASES,
    MAX_DURATION_US,
    MAX_SEGMENT_BYTES,
    MIN_SEGMENT_BYTES,
    OPTIONS,
    Option,
)
from flowcontrol.scenario.scaling_models import DS2_KEYS, FLINK_KEYS, Scaling
from flowcontrol.scenario.schedule import PhaseSpec
from flowcontrol.scenario.stage_models import Operator, Stage
from flowcontrol.scenario.syntax import DURATION_PATTERN, LONG_MAX, read_table
from flowcontrol.scenario.system import ALIASES as SYSTEM_ALIASES
from flowcontrol.scenario.system import (
    PRESETS,
    THROTTLE_ALIASES,
    THROTTLE_PARTS,
    TRANSPORT_PARTS,
    Parameter,
    Part,
)

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


DIALECT: Final = "http://json-schema.org/draft-07/schema#"

PARTS: Final = {
    "cluster": Cluster,
    "stages": Stage,
    "operators": Operator,
    "edges": Edge,
    "jobs": JobPart,
}
"""Models of the mappings that the top of a file holds, by its key."""

AUTOSCALER_KEY: Final = "^(kubernetes\\.operator\\.)?job\\.autoscaler\\."
"""How the keys of Flink's autoscaler begin."""
_NULL: Final[Schema] = {"type": "null"}
_STATED: Final[Schema] = {"not": _NULL}


def _rule(row: Mapping[str, Any]) -> Schema:
    """Return the schema of a row of ``together`` in ``checks.yaml``."""
    states = [*map(_states, row.get("any", ())), *map(_states, filter(None, [row.get("states")]))]
    states += [_is(key, value) for key, value in row.get("has", {}).items()]
    if "one" in row:
        return {"oneOf": [*map(_states, row["one"])]}
    then: Schema = dict(row.get("then", {}))
    if "nulls" in row:
        then["properties"] = dict.fromkeys(row["nulls"], _NULL)
    if "needs" in row:
        then["required"] = row["needs"]
    if states:
        then |= {"anyOf": states} if "any" in row else states[0]
    if "if" not in row:
        return then
    value = {"not": {"enum": row["none_of"]}} if "none_of" in row else _STATED
    value = {"const": row["is"]} if "is" in row else value
    return {"if": {"required": [row["if"]], "properties": {row["if"]: value}}, "then": then}


def _is(key: str, value: str | bool) -> Schema:
    return {"required": [key], "properties": {key: {"const": value}}}


def _states(key: str) -> Schema:
    return {"required": [key], "properties": {key: _STATED}}


def _rules_of_scaling() -> list[Schema]:
    """Return which keys of a controller another policy does not have."""
    own = [("ds2", FLINK_KEYS), ("flink-autoscaler", DS2_KEYS)]
    rules = [(policy, {"properties": dict.fromkeys(keys, False)}) for policy, keys in own]
    rules.append(("ds2", {"patternProperties": {AUTOSCALER_KEY: False}}))
    return [_rule({"if": "policy", "is": policy, "then": then}) for policy, then in rules]


def scenario_schema() -> Schema:
    """Return the JSON schema of scenario files.

    Returns plain JSON. Every scenario that is read without a refusal satisfies it. Under ``x-unit``
    a number has its unit in words, which validators ignore.
    """
    models = [(model, "validation") for model in (ScenarioHead, *PARTS.values())]
    _, made = models_json_schema(models, ref_template="#/definitions/{model}")  # type: ignore[arg-type]
    definitions = _plain(made["$defs"])
    head = definitions.pop(ScenarioHead.__name__)
    jobs = definitions[JobPart.__name__]
    for holder in (head, jobs):
        for key in ("stages", "edges"):
            holder["properties"][key]["items"] = _ref(PARTS[key].__name__)
    head["properties"] |= {
        "system": _described(head, "system") | system_schema(),
        "options": _described(head, "options") | {"type": "object", **options_schema()},
        "jobs": _described(head, "jobs")
        | {"type": "array", "minItems": 1, "items": _ref(JobPart.__name__)},
    }
    head["properties"]["operators"] = _described(head, "operators") | {
        "type": "array",
        "minItems": 1,
        "items": _ref(Operator.__name__),
    }
    del definitions[Operator.__name__]["properties"]["placement"]
    own = definitions[Scaling.__name__]
    del own["properties"]["keys"]
    own["patternProperties"] = {AUTOSCALER_KEY: {}}
    head["required"] = [key for key in head["required"] if key not in {"stages", "edges"}]
    kinds = [[kind, "edges"] for kind in ("stages", "operators")]
    head["oneOf"] = [*({"required": keys} for keys in kinds), {"required": ["jobs"]}]
    for name, rows in read_table("checks.yaml")["together"].items():
        definitions[name]["allOf"] = list(map(_rule, rows))
    definitions[Scaling.__name__]["allOf"] = _rules_of_scaling()
    definitions[Operator.__name__]["allOf"] = definitions[Stage.__name__]["allOf"]
    _add_examples(head, definitions)
    return {"$schema": DIALECT, **head, "title": "flowcontrol scenario", "definitions": definitions}


def _plain(node: Any) -> Any:
    """Return a schema without the titles, which only repeat the keys, and null as a default."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    if any(one.get("items") == _ref(PhaseSpec.__name__) for one in node.get("oneOf", ())):
        own = {key: _plain(value) for key, value in node.items() if key != "oneOf"}
        return own | _rate(node["oneOf"])
    return {
        key: value if key == "default" else _plain(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
        and not (key == "default" and value is None)
    }


def _rate(forms: list[Schema]) -> Schema:
    """Return the schema of a rate, by the type that is there, so that a refusal is to the point.

    ``forms`` are a number, a schedule and perhaps a list with one of either for each subtask.
    """
    number, schedule, *per_subtask = forms
    items = schedule["items"]
    lists: Schema = {"items": items}
    if per_subtask:
        each = {**number, "type": [number["type"], "array"], "items": items}
        is_schedule = {"items": {"type": "object"}, "minItems": 1}
        lists = {"if": is_schedule, "then": {"items": items}, "else": {"items": each}}
    return {**number, "type": [number["type"], "array"], "minItems": 1, **lists}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def _described(head: Schema, key: str) -> Schema:
    """Return the description and the default that a model has for a key."""
    kept = ("description", "default")
    return {word: head["properties"][key][word] for word in kept if word in head["properties"][key]}


# ---------------------------------------------------------------- examples


def read_examples() -> dict[str, dict[str, Any]]:
    """Return ``keys.yaml``: by mapping and key, an example and Flink's own option or call.

    What an operator has in common with a stage is there once.
    """
    found = {
        owner: {key: row for key, row in keys.items() if "example" in row}
        for owner, keys in KEYS.items()
    }
    stage = {key: row for key, row in found[Stage.__name__].items() if key != "placement"}
    return {**found, Operator.__name__: {**stage, **found[Operator.__name__]}}


def _add_examples(head: Schema, definitions: Schema) -> None:
    """Put the examples where an editor offers them."""
    for place, keys in read_examples().items():
        owner = head if place == "top" else definitions[place]
        for key, row in keys.items():
            owner["properties"][key]["examples"] = [row["example"][key]]
