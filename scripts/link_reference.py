"""The tables of docs/link.md and docs/monitoring.md that are made from the code.

    python scripts/link_reference.py            print the pages with them
    python scripts/link_reference.py --write    put them into the pages

What stands between the tables is written by hand.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from flowcontrol.cli.link import add
from flowcontrol.link.altering import FIXED
from flowcontrol.link.link import Link
from flowcontrol.link.monitoring.figures import (
    TIME,
    ChannelSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
    heads_of,
    view_columns,
)
from flowcontrol.link.monitoring.prometheus import LABELS, metrics_of
from flowcontrol.link.settings import (
    ALTERABLE,
    DEFAULTS,
    EVENT_LIMITS_S,
    LIMITS,
    MOST_BYTES,
    TARGET_LIMITS_S,
)

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

SIZES = {"buffer_bytes", "detach_after_bytes", "max_pool_bytes", "spill_bytes"}

NOT_STORED = {
    "path": "where the link is",
    "schema": "of the link: senders bring them, and add some with `evolve_schema`",
    "evolve_schema": "each program says it for itself",
    "storage_options": "each program says it for itself",
}
"""Why arguments that are no settings of the link cannot be altered."""


def parameters() -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of each argument of ``Link``, as its docstring has them."""
    text = inspect.getdoc(Link) or ""
    part = text.split("Parameters\n----------\n")[1].split("\nRaises\n")[0]
    for name, kind, meaning in re.findall(r"^(\w+) : (.+)\n((?:    .+\n|\n)+)", part, re.MULTILINE):
        yield name, re.sub(r", (optional|default .*)$", "", kind), sentence(meaning)


def sentence(text: str) -> str:
    """Return a text of a docstring in one line of Markdown."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def size(value: int) -> str:
    """Return a number of bytes in the largest unit that divides it."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value and value % factor == 0:
            return f"{value // factor:,} {unit}"
    return f"{value:,}" + (" byte" if value == 1 else "")


def limits(name: str) -> str:
    """Return the least and the most of a setting."""
    if name == "target_batch_s":
        low_s, high_s = TARGET_LIMITS_S
        return f"{low_s:g} to {high_s:g} s"
    if name in EVENT_LIMITS_S:
        return "{:g} to {:.0f} s".format(*EVENT_LIMITS_S[name])
    if name not in LIMITS:
        return ""
    low, high = LIMITS[name]
    if name not in SIZES:
        return f"{low:,} to {high:,}"
    return f"at least {size(low)}" if high == MOST_BYTES else f"{size(low)} to {size(high)}"


def default(name: str) -> str:
    """Return the default of an argument."""
    if name not in DEFAULTS:
        return {"path": "required", "schema": "the first sender's"}.get(name, "none")
    value = DEFAULTS[name]
    if value is None:
        return "none"
    if name in EVENT_LIMITS_S:
        return f"{value:g} s"
    return size(value) if name in SIZES and value else f"{value:,}"


def settings() -> Iterator[str]:
    """Yield the table of what ``Link`` takes."""
    yield "| setting | type | default | limits | may change in use | meaning |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, kind, meaning in parameters():
        said = default(name) if name != "evolve_schema" else "False"
        fixed = NOT_STORED.get(name) or f"no: {FIXED[name]}" if name not in ALTERABLE else "yes"
        yield f"| `{name}` | {kind} | {said} | {limits(name)} | {fixed} | {meaning} |"


def methods() -> Iterator[str]:
    """Yield the table of the methods of ``Link``."""
    yield "| method | what it does |"
    yield "| --- | --- |"
    for name, found in vars(Link).items():
        if name.startswith("_") or not inspect.isfunction(found):
            continue
        own = [one for one in inspect.signature(found).parameters.values() if one.name != "self"]
        text = sentence((inspect.getdoc(found) or "").split("\n\n")[0])
        yield f"| `link.{name}({', '.join(arguments(own))})` | {text} |"


def arguments(own: Iterable[inspect.Parameter]) -> Iterator[str]:
    """Yield the arguments of a method as a call has them."""
    for one in own:
        has_default = one.default is not inspect.Parameter.empty
        stars = "**" if one.kind is one.VAR_KEYWORD else ""
        yield f"{stars}{one.name}" + (f"={one.default!r}" if has_default else "")


def commands() -> Iterator[str]:
    """Yield the table of the actions of ``flowcontrol link``."""
    parser = argparse.ArgumentParser()
    add(parser)
    (actions,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    yield "| action | what it does |"
    yield "| --- | --- |"
    for name, made in actions.choices.items():
        words, told = [name], [f"{made.description}"]
        for one in made._actions:
            if one.dest == "help":
                continue
            shown = one.metavar if not one.option_strings else one.option_strings[0]
            if one.option_strings:
                shown = f"{shown} {one.metavar}" if one.metavar else shown
                shown = shown if one.required else f"[{shown}]"
                told.append(f"`{one.option_strings[0]}`: {one.help}.")
            words.append(str(shown))
        yield f"| `{' '.join(words)}` | {' '.join(told)} |"


def members() -> Iterator[str]:
    """Yield the table of the columns that senders and receivers have on the terminal."""
    yield "| column | of a sender | of a receiver |"
    yield "| --- | --- | --- |"
    sent, read = (
        {one.column[1]: f"{one.meaning} {one.more}".strip() for one in heads_of(kind).values()}
        for kind in (SenderSnapshot, ReceiverSnapshot)
    )
    for head, told in read.items():
        yield f"| {head} | {sent.get(head, '')} | {told} |"


def channels(since: int = 1, until: int = TIME) -> Iterator[str]:
    """Yield the table of the columns that channels have on the terminal."""
    yield "| column | unit | meaning |"
    yield "| --- | --- | --- |"
    for one in heads_of(ChannelSnapshot, since, until).values():
        yield f"| {one.column[1]} | {one.unit} | {one.meaning} {one.more}".rstrip() + " |"


def event_time() -> Iterator[str]:
    """Yield the same of the table of event time."""
    return channels(TIME, 2 * TIME)


def view() -> Iterator[str]:
    """Yield the table of the columns of the view."""
    yield "| column | type | meaning |"
    yield "| --- | --- | --- |"
    for name, (kind, one) in view_columns().items():
        yield f"| {name} | {f'{kind}, {one.unit}' if one.unit else kind} | {one.meaning} |"


def metrics() -> Iterator[str]:
    """Yield a table of metrics for each set of labels."""
    for kind, labels in LABELS.items():
        names = ", ".join(f"`{name}`" for name in labels)
        yield from (f"Labels {names}:", "", "| metric | meaning |", "| --- | --- |")
        for metric, (_, one) in metrics_of(kind).items():
            yield f"| `{metric}` | {one.meaning.replace('Whether ', '1 if ')} |"
        yield ""


PAGES = {
    "link.md": {"settings": settings, "methods": methods, "commands": commands},
    "monitoring.md": {
        "members": members,
        "channels": channels,
        "event time": event_time,
        "view": view,
        "metrics": metrics,
    },
}


def page(name: str) -> str:
    """Return a page with its tables as the code has them now."""
    text = (DOCS / name).read_text(encoding="utf-8")
    for title, made in PAGES[name].items():
        head = f"<!-- {title}: made by scripts/link_reference.py -->\n"
        before, mark, rest = text.partition(head)
        assert mark, f"{name} has no place for the table of {title}"
        after = rest[rest.index(f"<!-- end of {title} -->") :]
        table = "\n".join(made()).rstrip("\n")
        text = f"{before}{head}\n{table}\n\n{after}"
    return text


def main(arguments: list[str]) -> int:
    """Print the pages, or write them."""
    for name in PAGES:
        made = page(name)
        if "--write" in arguments:
            (DOCS / name).write_text(made, encoding="utf-8")
        else:
            print(made, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
