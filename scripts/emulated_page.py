"""docs/explanation/emulated.md: what runs on which clock and under which system.

Made from ``flowcontrol/scenario/refusals.yaml``: each feature of it is stated in a small scenario,
and the page says what the checks say of that on either clock and under every system.

    python scripts/emulated_page.py            print the page
    python scripts/emulated_page.py --write    write it
"""

from __future__ import annotations

import copy
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.scenario import check_clock, parse_scenario
from flowcontrol.scenario.given import split_key
from flowcontrol.scenario.refusals import FEATURES, ROWS, Row
from flowcontrol.scenario.system import PRESETS
from scripts.reference import ROOT, serve, table

PAGE = ROOT / "docs" / "explanation" / "emulated.md"

BASE: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "duration_s": 10,
    "stages": [
        {"name": "source", "parallelism": 2, "emit_rate": 100, "record_bytes": 200},
        {"name": "map", "parallelism": 2, "service_rate": 80},
        {"name": "sink", "parallelism": 2, "service_rate": 50},
    ],
    "edges": [
        {"from": "source", "to": "map", "partitioner": "rebalance"},
        {"from": "map", "to": "sink", "partitioner": "rebalance"},
    ],
}
"""The scenario that features are stated in."""
FILES = {"rows.csv": "k,n\na,1\n", "other.csv": "x\n1\n"}
"""Rows that samples replay."""


def problems(changes: Mapping[str, Any], clock: Any) -> list[Problem]:
    """Return the problems of the small scenario with changes: those of its file, or of a clock."""
    with tempfile.TemporaryDirectory() as folder:
        for file, text in FILES.items():
            (Path(folder) / file).write_text(text)
        try:
            return check_clock(parse_scenario(changed(changes), base=folder), clock)
        except ScenarioError as error:
            return list(error.problems)


def changed(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the small scenario with changes; None: the key is left out."""
    mapping = copy.deepcopy(BASE)
    for path, value in changes.items():
        if path in {"jobs", "operators"}:
            mapping.pop("stages", None)
        if path == "jobs":
            del mapping["edges"]
        *parts, last = split_key(path, mapping)
        at: Any = mapping
        for part in parts:
            at = at[place(at, part)] if isinstance(at, list) else at.setdefault(part, {})
        if isinstance(at, list):
            index = place(at, last)
            at[index : index + 1] = [copy.deepcopy(value)]
        elif value is not None:
            at[last] = copy.deepcopy(value)
    return mapping


def place(items: list[Any], key: str) -> int:
    """Return where an item of a list is, by its number or its name."""
    return int(key) if key.isdecimal() else [item.get("name") for item in items].index(key)


HEAD = """\
# What is emulated, and what is not yet

<!-- made by scripts/emulated_page.py: change refusals.yaml, then run it with --write -->

What a scenario may state is in [scenario keys](../reference/scenario.md). It is emulated by the
rules of the system, or refused by name, never ignored. This page is made of the checks that refuse:
each feature is stated in a small scenario, and the tables say what the checks say of it, on either
clock and under each of the [systems](../reference/systems.md).

## Features

These run everywhere: exclusive and floating buffers with credits and announced backlog, pools with
quotas, overdraft and redistribution, flushing, local and remote channels, Flink's partitioners,
schedules, stalls, skew, selectivity, placement, fan-in and fan-out, latencies of any length, and
the refusal of jobs for which slots or network memory are too few, in Flink's words. On the live
clock the rows come again after a restart, and those behind the checkpoint reach an output twice.

Of other systems those rules are emulated by which receivers stop and release senders and
coordinators slow sources. Their channels count records, not buffers: no segments, pools, flushing.
Under the transport `chained` every edge has to be forward; `flink-2` has Flink 2's fixed numbers of
buffers, whatever the scenario states. What comes behind an aligned barrier waits unread in its
channel's queue, and under `flink-1.4` it is put aside at the receiver, up to
`task.checkpoint.alignment.max-size`. A system without barriers that hold inputs up takes no
checkpoints; `compare` runs it without.

"""

LIVE = """\
## Refused on the live clock alone

There each stage is a query with a memory of its own, a round is a micro-batch, and what is not in
the rows and the ledgers of the round before nobody knows.

"""

BESIDE = """\
## Refused beside something else

Each row is a feature with something that it does not go with: the place that the refusal names, and
its words.

"""


@cache
def page() -> str:
    """Return the page."""
    live = [row for row in ROWS if row.clock == "live"]
    beside = [row for row in ROWS if row.clock != "live"]
    return "".join(
        [
            *(HEAD, table(("feature", "on the virtual clock", "on the live clock"), features())),
            *("\n", LIVE, table(("place", "refusal", "because"), (shown(row) for row in live))),
            *("\n", BESIDE, table(("feature", "place", "refusal"), map(refusal, beside))),
        ]
    )


def features() -> Iterator[tuple[str, ...]]:
    """Yield a row for each feature: under which systems it runs on which clock."""
    for feature in FEATURES.values():
        cells = (systems(feature["has"], clock) for clock in ("virtual", "live"))
        yield feature["title"], *cells


def systems(changes: Mapping[str, Any], clock: str) -> str:
    """Return under which systems a feature runs on a clock, in words."""
    if "system" in changes:
        return "no" if problems(changes, clock) else "yes"
    runs = {name: not problems({**changes, "system": name}, clock) for name in PRESETS}
    yes, no = ([name for name in runs if runs[name] is way] for way in (True, False))
    if not yes or not no:
        return "under all systems" if yes else "no"
    return f"only under {', '.join(yes)}" if len(yes) <= len(no) else f"not under {', '.join(no)}"


def found(row: Row) -> Problem:
    """Return the problem that the scenario of a row has."""
    clock = "live" if row.clock == "live" else "virtual"
    return problems({**FEATURES[row.feature]["has"], **row.changes}, clock)[0]


def shown(row: Row) -> tuple[str, ...]:
    """Return the row of a refusal of the live clock."""
    problem = found(row)
    return f"`{problem.place}`", problem.message, row.because


def refusal(row: Row) -> tuple[str, ...]:
    """Return the row of another refusal."""
    problem = found(row)
    return FEATURES[row.feature]["title"], f"`{problem.place}`", problem.message


def main(arguments: list[str]) -> int:
    """Print the page, or write it."""
    return serve(page, PAGE, arguments)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
