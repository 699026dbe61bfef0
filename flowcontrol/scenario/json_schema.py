"""A JSON schema of scenario files, for editors: made from the models and the tables.

pydantic makes it of the models; what is read by hand (options, systems, jobs) is added here from
the tables that the readers use. It catches what can be seen in one place. What two keys mean
together is checked when the scenario is read.

Draft 7, the newest that editors with the YAML language server know.
"""

from typing import Any, Final

from pydantic.json_schema import models_json_schema

from flowcontrol.scenario.event_time_models import EventTime, Watermark
from flowcontrol.scenario.fault_models import Failure
from flowcontrol.scenario.job_models import JobPart
from flowcontrol.scenario.json_schema_values import Schema, options_schema, system_schema
from flowcontrol.scenario.key_distribution import KeyDistribution
from flowcontrol.scenario.models import Cluster, Edge, ScenarioHead
from flowcontrol.scenario.operator_models import Operator
from flowcontrol.scenario.scaling_models import DS2_KEYS, FLINK_KEYS, Scaling
from flowcontrol.scenario.schedule import PhaseSpec
from flowcontrol.scenario.stage_models import Stage
from flowcontrol.scenario.window_models import Trigger, Window
from flowcontrol.scenario.yaml_file import read_table

DIALECT: Final = "http://json-schema.org/draft-07/schema#"

PARTS: Final = {
    "cluster": Cluster,
    "stages": Stage,
    "operators": Operator,
    "edges": Edge,
    "jobs": JobPart,
}
"""Models of the mappings that the top of a file holds, by its key."""

_SHARED: Final = ("hash", "custom")
"""Partitioners that take shares."""
_READS: Final = ("emit_rate", "total_rate")
"""Keys that say how fast a source can read."""
_ARRIVES: Final = ("arrival_rate", "total_arrival_rate")
"""Keys that say what is written to its log."""
_PARTS: Final = ("task_manager", "stage")
"""Keys that say what fails, beside the JobManager."""
AUTOSCALER_KEY: Final = "^(kubernetes\\.operator\\.)?job\\.autoscaler\\."
"""How the keys of Flink's autoscaler begin."""
_NULL: Final[Schema] = {"type": "null"}
_STATED: Final[Schema] = {"not": _NULL}


def _if(key: str, value: Schema, then: Schema) -> Schema:
    return {"if": {"required": [key], "properties": {key: value}}, "then": then}


def _is(key: str, value: str | bool) -> Schema:
    return {"required": [key], "properties": {key: {"const": value}}}


def _states(key: str) -> Schema:
    return {"required": [key], "properties": {key: _STATED}}


def _none_of(*keys: str) -> Schema:
    return {"properties": dict.fromkeys(keys, _NULL)}


TOGETHER: Final[dict[str, list[Schema]]] = {
    Stage.__name__: [
        _if("total_rate", _STATED, _none_of("emit_rate", "service_rate")),
        _if("service_time_cv", _STATED, _is("service_time", "lognormal")),
        *(_if(key, _STATED, {"anyOf": [*map(_states, _READS)]}) for key in _ARRIVES),
        _if("total_arrival_rate", _STATED, _none_of("arrival_rate")),
        _if("external", {"const": True}, _states("total_rate")),
        _if("latency_from", {"const": "arrival"}, {"anyOf": [*map(_states, _ARRIVES)]}),
        _if("watermark", _STATED, _states("event_time")),
    ],
    EventTime.__name__: [
        _if("distribution", {"const": "exponential"}, _states("out_of_orderness_s"))
    ],
    Window.__name__: [
        *(
            _if("kind", {"const": kind}, {**_none_of(*others), "required": list(needed)})
            for kind, needed, others in (
                ("tumbling", ("size_s",), ("slide_s", "gap_s")),
                ("sliding", ("size_s", "slide_s"), ("gap_s",)),
                ("session", ("gap_s",), ("size_s", "slide_s")),
                ("global", ("trigger",), ("size_s", "slide_s", "gap_s")),
            )
        ),
        _if("kind", {"const": "global"}, {"properties": {"trigger": {"type": "object"}}}),
    ],
    Trigger.__name__: [{"oneOf": [_states("count"), _states("continuous_s")]}],
    Watermark.__name__: [
        _if("punctuated", {"const": True}, {"properties": {"delay_s": {"const": 0}}})
    ],
    Edge.__name__: [
        _if(
            "partitioner",
            {"not": {"enum": ["hash", None]}},
            _none_of("key_weights", "key_distribution", "key"),
        ),
        _if(
            "partitioner", {"not": {"enum": ["hash", "custom", None]}}, _none_of("channel_weights")
        ),
        _if("partitioner", {"const": "custom"}, {"required": ["channel_weights"]}),
        _if("key_distribution", _STATED, _none_of("key_weights", "channel_weights", "key")),
        _if("key_weights", _STATED, _none_of("channel_weights", "key")),
        _if("channel_weights", _STATED, _none_of("key")),
    ],
    Failure.__name__: [
        {"anyOf": [_states("task_manager"), _states("stage"), _is("job_manager", True)]},
        _if("task_manager", _STATED, _none_of("stage", "subtask")),
        *(_if(key, _STATED, {"properties": {"job_manager": {"const": False}}}) for key in _PARTS),
        _if("stage", _STATED, _states("subtask")),
        _if("subtask", _STATED, _states("stage")),
    ],
    Scaling.__name__: [
        _if("policy", {"const": "ds2"}, {"properties": dict.fromkeys(FLINK_KEYS, False)}),
        _if(
            "policy", {"const": "flink-autoscaler"}, {"properties": dict.fromkeys(DS2_KEYS, False)}
        ),
        _if("policy", {"const": "ds2"}, {"patternProperties": {AUTOSCALER_KEY: False}}),
    ],
    KeyDistribution.__name__: [
        _if("exponent", _STATED, _is("kind", "zipf")),
        _if("share", _STATED, _is("kind", "hot")),
    ],
}
"""Keys of one mapping that exclude or need each other, which the models check in code."""


def scenario_schema() -> Schema:
    """Return the JSON schema of scenario files.

    Returns plain JSON. Every scenario that is read without a refusal satisfies it. Under ``x-unit``
    a number has its unit in words, which validators pass over.
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
    for name, rules in TOGETHER.items():
        definitions[name]["allOf"] = rules
    definitions[Operator.__name__]["allOf"] = TOGETHER[Stage.__name__]
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
    """Return ``examples.yaml``: by mapping and key, an example and Flink's own option or call.

    What an operator has in common with a stage is there once.
    """
    examples = read_table("examples.yaml")
    stage = {key: row for key, row in examples[Stage.__name__].items() if key != "placement"}
    return {**examples, Operator.__name__: {**stage, **examples[Operator.__name__]}}


def _add_examples(head: Schema, definitions: Schema) -> None:
    """Put the examples where an editor offers them."""
    for place, keys in read_examples().items():
        owner = head if place == "top" else definitions[place]
        for key, row in keys.items():
            if "example" in row:
                owner["properties"][key]["examples"] = [row["example"][key]]
