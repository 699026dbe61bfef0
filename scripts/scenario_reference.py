"""docs/reference/scenario.md: every key of a scenario, made from the models and the tables.

Nothing of it is written by hand but the words between the tables, which are here. Types, ranges and
units come from the JSON schema, which comes from the models.

    python scripts/scenario_reference.py            print the page
    python scripts/scenario_reference.py --write    put it into docs/reference/scenario.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import yaml

from scripts.reference import FOLDER, ROOT, serve, table

PAGE = FOLDER / "scenario.md"

Schema = dict[str, Any]

HEAD = """\
# Scenario keys

<!-- made by scripts/scenario_reference.py: change the models, then run it with --write -->

A scenario is a YAML file with a job, its machines and its workload. This page has every key with
its type, default, meaning, example, and counterpart in Flink. Any other key is refused, and the
refusal names the nearest known one.

`flowcontrol new` writes a first scenario, with comments. `flowcontrol plan SCENARIO` checks a
scenario, and shows whether its network buffers suffice.

## In an editor

`flowcontrol schema` prints all this as a JSON schema (draft 7). With it an editor completes keys,
shows their meaning and marks errors while you type.

```bash
flowcontrol schema > flowcontrol.schema.json
```

- **VS Code** with the extension YAML (redhat.vscode-yaml), and every other editor with the YAML
  language server: begin the scenario with the line
  `# yaml-language-server: $schema=flowcontrol.schema.json`. The path is relative to the scenario.
  For all scenarios of a folder at once, put
  `"yaml.schemas": {"flowcontrol.schema.json": "conf/*.yaml"}` into the workspace's settings.
- **IntelliJ IDEA and PyCharm**: begin the scenario with the line
  `# $schema: flowcontrol.schema.json`, or map the schema to files under Settings, Languages &
  Frameworks, Schemas and DTDs, JSON Schema Mappings.

The schema checks one place at a time. Conditions between two places are checked when the scenario
is read.
"""

SECTIONS = {
    "top": (
        "The top of the file",
        "A scenario needs `stages` and `edges`, or `operators` and `edges`, or `jobs`.",
    ),
    "Cluster": ("cluster", "The machines."),
    "Stage": (
        "stages",
        "A list: the operators of the job. A stage without incoming edges is a source, one "
        "without outgoing edges a sink.",
    ),
    "PhaseSpec": (
        "phases",
        "A list of phases is a schedule, a rate that changes. The first phase starts at 0, the "
        "last lasts to the end.",
    ),
    "Stall": ("stalls", "Times during which subtasks of a stage are stalled."),
    "State": (
        "state",
        "The state of each subtask of a stage, which a checkpoint writes. Its size is `bytes`, "
        "plus `bytes_per_key` for each of its keys, plus `bytes_per_record` for each processed "
        "record.",
    ),
    "EventTime": (
        "event_time",
        "The event times of a source. For generated records this is the time of emission, less the "
        "lateness of each record, plus an offset; for replayed rows it is a column. Times are in "
        "whole milliseconds.",
    ),
    "Watermark": (
        "watermark",
        "The watermarks of a source with event time. Windows wait for them.",
    ),
    "Alignment": (
        "alignment",
        "Sources that wait for each other: a source that is ahead of its group by more than "
        "`max_drift_s` is paused.",
    ),
    "Window": (
        "window",
        "The windows of a stage. It emits a result for each key whose window fires: "
        "`window_start`, `window_end`, `key` and the aggregates. With several subtasks its "
        "incoming edges must be `hash` with keys, or `global`.",
    ),
    "Trigger": ("trigger", "One of the two, instead of a trigger's name."),
    "Commit": (
        "commit",
        "What a commit of a sink takes. A sink commits when it hears that a checkpoint is "
        "complete, and rows are visible when that is over.",
    ),
    "Requests": (
        "requests",
        "The requests of a sink to its destination: batches, requests in flight, what fails and is "
        "sent again, as Flink's AsyncSinkWriter or a sink that blocks its thread has them; or the "
        "calls of an operator, as its AsyncWaitOperator has them. `service_rate` stays what the "
        "task's own thread does for a record before that.",
    ),
    "Cache": ("cache", "What a lookup knows already; such a record goes on at once."),
    "LatencyPhase": (
        "latency_ms",
        "A list of phases: a latency that changes. The first phase starts at 0, the last lasts to "
        "the end.",
    ),
    "RateLimiting": (
        "rate_limiting",
        "The window of records in flight: it grows with each request that succeeds and shrinks "
        "with each of which something fails.",
    ),
    "Retry": ("retry", "How a blocking sink sends again what failed."),
    "Limit": (
        "limit",
        "The capacity of a destination, as token buckets. The first records of a request pass as "
        "far as there are tokens; the others fail with the answer and go back to the head of the "
        "buffer.",
    ),
    "Errors": ("errors", "Failures that no limit causes."),
    "Input": ("input", "Real rows that a source replays, in their order, each once."),
    "Output": ("output", "The table that a sink writes; without it rows are only counted."),
    "Operator": (
        "operators",
        "A list, instead of `stages`: Flink's rules decide which operators run in one task, and "
        "where. An operator has the keys of [stages](#stages), except `placement`, and these.",
    ),
    "Edge": ("edges", "A list: all channels from one stage to another."),
    "KeyDistribution": (
        "key_distribution",
        "The frequencies of many keys. The keys are the texts `1`, `2`, `3` ..., hashed as Java "
        "strings, and the first is the most frequent; Flink's key groups route them. `flowcontrol "
        "plan` shows the share of the hottest subtask.",
    ),
    "Savepoint": ("savepoints", "A list, in the order of time."),
    "Failure": (
        "failures",
        "A list, in the order of time: each names a task manager, a subtask of a stage, or the "
        "JobManager.",
    ),
    "Scaling": (
        "scaling",
        "The controller that changes the parallelism of stages during the run, with a restart "
        "each time: DS2, or Flink's autoscaler, which also has its own keys `job.autoscaler.*`. "
        "[Scaling](../howto/scale.md) says what they do.",
    ),
    "Trace": (
        "trace",
        "A window of the run: every message between task managers in it is written to the table "
        "`messages`. Without the key nothing is written, at no cost.",
    ),
    "Monitoring": (
        "monitoring",
        "Further measurements of a run, besides the timers of every task in the table `stages`.",
    ),
    "SamplingKeys": (
        "monitoring.sampling",
        "Backpressure as Flink up to 1.12 measured it while its page was open: repeated samples "
        "of whether a task waits for a buffer. Without the key nothing is sampled, at no cost.",
    ),
    "JobPart": ("jobs", "Several jobs on the same machines, instead of `stages` and `edges`."),
}
"""By model, in the order of the page: title and introduction."""

EFFECTS = {
    "emulated": "These are emulated.",
    "none": "These are accepted, but have no effect on an emulation.",
    "refused": "These are not emulated, so only their default is accepted.",
}

MANY = 10**9
"""A limit from here on only catches slips, and is not shown."""

DEFAULT = re.compile(r"[;,] default:? (?P<default>.*)$", re.DOTALL)


def page() -> str:
    """Return the page."""
    from flowcontrol.scenario.json_schema import read_examples, scenario_schema

    schema, examples = scenario_schema(), read_examples()
    parts = [HEAD]
    for owner, (title, text) in SECTIONS.items():
        model = schema if owner == "top" else schema["definitions"][owner]
        if owner == "Operator":
            common = schema["definitions"]["Stage"]["properties"]
            own = {key: one for key, one in model["properties"].items() if key not in common}
            model = {**model, "properties": own}
        rows = key_rows(model, examples[owner])
        parts.append(f"## {title}\n\n{text}\n\n{table(KEY_HEADS, rows)}")
    parts.append(options())
    return "\n".join(parts)


KEY_HEADS = ("key", "value", "default", "meaning", "example")


def key_rows(model: Schema, examples: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each key of a mapping."""
    for key, schema in model["properties"].items():
        meaning, default = meaning_and_default(schema["description"], schema.get("default"))
        if key in model.get("required", ()):
            default = "required"
        row = examples.get(key, {})
        if "flink" in row:
            meaning += f". Flink: {row['flink']}"
        shown = f"`{flow({key: row['example'][key]})}`" if "example" in row else ""
        yield f"`{key}`", value_of(key, schema), default, meaning, shown


def meaning_and_default(text: str, default: Any) -> tuple[str, str]:
    """Return a description without its default, and the default, in its own words if it has any."""
    found = DEFAULT.search(text)
    if found is not None:
        return text[: found.start()], found["default"]
    return text, "none" if default is None or isinstance(default, dict | list) else plain(default)


def value_of(key: str, schema: Schema) -> str:
    """Return what a key may be, in words."""
    special = {
        "system": "the name of a [system](systems.md), or {transport, throttle}",
        "options": "a mapping of [Flink's options](#options)",
    }
    return special[key] if key in special else words(schema)


def words(schema: Schema) -> str:
    """Return what a schema accepts, in words."""
    if "$ref" in schema:
        title = SECTIONS[schema["$ref"].rpartition("/")[2]][0]
        return f"[{title}](#{title})"
    if list_of(schema.get("then", schema)) == "PhaseSpec":
        rate = "a number of records/s or a list of [phases](#phases)"
        return rate + ", or a list with one of either for each subtask" * ("then" in schema)
    for either in ("anyOf", "oneOf"):
        if either in schema and "properties" not in schema:
            found = [words(one) for one in schema[either] if one.get("type") != "null"]
            return " or ".join(dict.fromkeys(found))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema["type"]
    if kind in {"integer", "number"}:
        return number(schema)
    if kind == "array":
        return f"a list{' of' if list_of(schema) else ', each'} {words(schema['items'])}"
    if kind == "object":
        return f"a mapping of texts to {words(schema['additionalProperties'])}"
    if kind == "string":
        return text_words(schema.get("pattern", ""))
    return {"boolean": "`true` or `false`"}[kind]


def list_of(schema: Schema) -> str:
    """Return the model whose mappings a list holds; empty if it is no such list."""
    ref: str = schema.get("items", {}).get("$ref", "")
    return ref.rpartition("/")[2]


def number(schema: Schema) -> str:
    """Return unit and range: ``a time in s, more than 0, at most 1,000,000,000``."""
    unit = schema.get("x-unit") or "a number"
    if "exclusiveMinimum" in schema:
        unit += f", more than {schema['exclusiveMinimum']:,}"
    elif schema.get("minimum") and schema["minimum"] > -MANY:
        unit += f", at least {schema['minimum']:,}"
    is_limited = schema.get("maximum", MANY) < MANY
    return unit + (f", at most {schema['maximum']:,}" if is_limited else "")


def text_words(pattern: str) -> str:
    """Return which text it is, by its pattern."""
    from flowcontrol.scenario.syntax import DURATION_PATTERN, MEMORY_PATTERN

    if pattern.startswith("^[A-Za-z0-9]"):
        return "a name of letters, digits, `_`, `-`" + (r" and `.`" if r"\." in pattern else "")
    known = {MEMORY_PATTERN: "a size such as `32kb`", DURATION_PATTERN: "a duration such as `1s`"}
    return known.get(pattern, "text")


KINDS = {
    "boolean": "`true` or `false`",
    "decimal": "a number",
    "duration": "a duration such as `100ms`",
    "memory": "a size such as `64mb`",
    "page": "a size such as `32kb`, a power of two",
    "share": "a share, less than 1",
    "whole": "a whole number",
}


def options() -> str:
    """Return the section of Flink's options."""
    from flowcontrol.scenario.syntax import read_table

    intro = "Flink's own keys, in Flink's value syntax; sizes are binary (1kb = 1024 bytes)."
    parts = [f"## options\n\n{intro}\n"]
    for effect, rows in read_table("options.yaml").items():
        made = [
            (
                f"`{key}`",
                option_words(row["kind"], row.get("limits", {})),
                f"`{flow(row['default'])}`" if "default" in row else "none",
                row["meaning"] + (f" (old name: `{row['old']}`)" if "old" in row else ""),
            )
            for key, row in rows.items()
        ]
        parts.append(f"{EFFECTS[effect]}\n\n{table(KEY_HEADS[:4], made)}")
    return "\n".join(parts)


def option_words(kind: str, limits: dict[str, Any]) -> str:
    """Return what an option may be, in words."""
    if kind == "choice":
        return ", ".join(f"`{word}`" for word in limits["words"])
    text = KINDS[kind]
    if kind == "duration" and limits.get("least_us", 0) < 0:
        return f"{text}, or `-1` for never"
    if limits.get("least_us", 0) > 1000:
        text += f", at least {limits['least_us'] // 1000} ms"
    if "least" in limits:
        edge = "at least" if limits.get("is_least_allowed", True) else "more than"
        text += f", {edge} {limits['least']:,}"
    return text + (f", at most {limits['most']:,}" if "most" in limits else "")


def plain(value: float) -> str:
    """Return a number as a file has it: ``104857600``, ``0.8``."""
    return str(int(value)) if value == int(value) else str(value)


def flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000).strip()
    text = text.removesuffix("\n...").removesuffix("...").strip()
    return text[1:-1] if isinstance(value, dict) else text


def main(arguments: list[str]) -> int:
    """Print the page, or write it."""
    return serve(page, PAGE, arguments)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
