"""docs/reference/tables.md: every table and column, made from their declarations.

    python scripts/tables_reference.py            print the page
    python scripts/tables_reference.py --write    put it into docs/reference/tables.md

A column's words are in ``records.yaml`` and beside the experiments that write it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from scripts.reference import FOLDER, ROOT, serve, table

if TYPE_CHECKING:
    from flowcontrol.records import Column, Table

PAGE = FOLDER / "tables.md"

HEAD = """\
# Tables and columns

<!-- made by scripts/tables_reference.py: change the declarations, then run it with --write -->

All results are Delta tables. Times are emulated seconds since the start of a run, and rates are
per emulated second. A cumulative column counts since the start; a column that covers the interval
describes the time since the previous sample; a level is the value at `t_s`. "or null" marks types
of columns that are null in rows without that figure.

"""

PLACES = {
    "stages": "`stages` in the folder of a run",
    "channels": "`channels` in the folder of a run",
    "latency": "`latency` in the folder of a run",
    "checkpoints": "`checkpoints` in the folder of a run that checkpoints",
    "checkpoint_tasks": "`checkpoint_tasks` likewise",
    "restarts": "`restarts` likewise",
    "scalings": "`scalings` in the folder of a run with a controller",
    "delivery": "`delivery` in the folder of a run that checkpoints",
    "commits": "`commits` in the folder of a run with a sink whose commits take time",
    "requests": "`requests` in the folder of a run with `requests`",
    "time": "`time` in the folder of a run with event time or windows",
    "processes": "`processes` in the folder of a run with `cluster.cores`, `cpu` or stalls",
    "messages": "`messages` in the folder of a run with a trace",
    "control_messages": "`control_messages` likewise",
    "samples": "`samples` in the folder of a run with `monitoring.sampling`",
    "metrics": "`metrics` in the folder of a run, unless its scenario says `metrics: false`",
    "output": "`output/<stage>` in the folder of a run, of each stage with a window",
    "output_of_requests": "`output/<stage>` in the folder of a live run, of a sink with `requests`",
    "ledger": "`links/<sender>-<receiver>/ledger` in the folder of a live run; `ledger` in a link",
    "state": "`state` in the folder of a live run that checkpoints",
    "query_progress": "where [a listener](../monitoring.md) writes it",
    "sweep": "`results` in the folder of a sweep",
    "tuning": "`tuning` in the folder of a search; `results` beside it is that of a sweep",
    "compare": "`results` in the folder of a comparison",
    "rates": "`rates` in the folder of a comparison",
}
"""By section: where the table is."""

BESIDE = """
Two folders have records instead of figures: `links/<sender>-<receiver>/exchange` has the records in
flight (consumed ones are trimmed), and `output/<stage>` the records that a sink wrote, if the
scenario has `output`. [Ledger and exchange](../explanation/ledger.md) explains both.
"""

SWEEP = """\
The columns of the varied keys come after `variant`. Each figure has two columns: over the whole
run, and with the suffix `{suffix}` over its second half.
"""

TUNING = """\
The columns of the varied keys come after `variant`, then a column for each figure that the search
reads, named with `_` instead of `.`: `sink_latency_p99_ms`, `memory`, `slots`. Null if a run has no
such figure.
"""


def page() -> str:
    """Return the page."""
    from flowcontrol.analysis.figures import SECOND_HALF
    from flowcontrol.experiments.compare import result as compared
    from flowcontrol.experiments.sweep.columns import results_table
    from flowcontrol.experiments.tune.goals import known_before
    from flowcontrol.experiments.tune.plan import tuning_table
    from flowcontrol.records import TABLES

    swept = results_table(())
    whole = [column for column in swept.columns if not column.name.endswith(SECOND_HALF)]
    found = {
        **TABLES,
        "sweep": swept,
        "tuning": tuning_table((), tuple(known_before().values())),
        "compare": compared.results_table(),
        "rates": compared.RATES,
    }
    index = [
        (f"[{name}](#{name})", place, lowered(found[name].meaning))
        for name, place in PLACES.items()
    ]
    parts = [f"{HEAD}{table(('table', 'where', 'a row is'), index)}{BESIDE}"]
    for name in PLACES:
        words = {"sweep": SWEEP.format(suffix=SECOND_HALF), "tuning": TUNING}.get(name, "")
        columns = whole if name == "sweep" else found[name].columns
        parts.append(section(name, found[name], words, columns))
    return "\n".join(parts)


def lowered(text: str) -> str:
    """Return a sentence as the rest of one: "a row is" goes before it."""
    return text[0].lower() + text[1:].removesuffix(".")


def section(name: str, one: Table, words: str, columns: tuple[Column, ...] | list[Column]) -> str:
    """Return what a row is, and the columns."""
    rows = [
        (
            f"`{c.name}`",
            f"{c.type} or null" if c.nullable else c.type,
            c.unit or "-",
            " ".join(c.meaning.split()),
        )
        for c in columns
    ]
    below = f"{words}\n" if words else ""
    return f"## {name}\n\n{one.meaning}\n\n{below}" + table(
        ("column", "type", "unit", "meaning"), rows
    )


def main(arguments: list[str]) -> int:
    """Print the page, or write it."""
    return serve(page, PAGE, arguments)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
