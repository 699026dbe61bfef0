"""docs/reference/checked.md: what is checked, on which clock, against what, by the tests' markers.

A test that checks a mechanism says so: ``@pytest.mark.holds("pid_rate", "rules", "...")``, or for
all tests of a file in its ``pytestmark``. Nothing else gets into the table.

    python scripts/held.py            print the page
    python scripts/held.py --write    put it into docs/reference/checked.md
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from scripts.reference import FOLDER, ROOT, serve, table

PAGE = FOLDER / "checked.md"

HEAD = """\
# What is checked, and against what

<!-- made by scripts/held.py from the tests: mark a test, then run it with --write -->

Which mechanism of flow control is checked, on which clock, against what. A row is here because a
test says that it holds it. [Systems](systems.md) says what each mechanism is;
`bench/against_flink.py` puts the virtual clock beside measurements of a real Flink job:
throughput, in-flight data, buffers in use, latency, blocked and idle time, and how long a source
goes on after its sink has slowed down.

"""

CLOCKS = {"rules": "none: its rules alone", "virtual": "virtual", "live": "live"}
"""What a marker may say, and what the table says for it."""


class Held(NamedTuple):
    """One marker of one test."""

    mechanism: str
    clock: str
    against: str
    test: str


def held_in(path: Path) -> Iterator[Held]:
    """Yield what the tests of a file say that they hold, in its order."""
    tree = ast.parse(path.read_text(), str(path))
    tests = [node for node in ast.walk(tree) if is_test(node)]
    shared = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    for test in tests:
        for words in marks([*test.decorator_list, *shared]):
            yield Held(*words, f"{path.name}::{test.name}")


def is_test(node: ast.AST) -> bool:
    """Return whether pytest collects a function."""
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test_")


def marks(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str, str]]:
    """Yield the arguments of each marker ``holds`` in some expressions."""
    for found in (call for node in nodes for call in ast.walk(node) if isinstance(call, ast.Call)):
        if ast.unparse(found.func) == "pytest.mark.holds":
            stated, clock, against = (ast.literal_eval(word) for word in found.args)
            for mechanism in stated if isinstance(stated, tuple) else (stated,):
                yield mechanism, clock, against


def collect(tests: Path = ROOT / "tests") -> list[Held]:
    """Return all markers, files in the order of their names."""
    return [held for path in sorted(tests.rglob("test_*.py")) for held in held_in(path)]


def mechanisms() -> dict[str, list[str]]:
    """Return every mechanism with the systems that use it, in the order of the table."""
    from flowcontrol.scenario.system import PRESETS, THROTTLE_PARTS, TRANSPORT_PARTS

    parts = [*TRANSPORT_PARTS, *(name for name in THROTTLE_PARTS if name != "none")]
    found = {
        part: [name for name, p in PRESETS.items() if part in {p.transport, p.throttle}]
        for part in parts
    }
    return found | {name: [] for name in PRESETS if name not in found}


def rows(held: Iterable[Held]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row per mechanism and clock: who uses it, and what it is checked against."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in held:
        against = found.setdefault((one.mechanism, one.clock), [])
        if one.against not in against:
            against.append(one.against)
    for mechanism, systems in mechanisms().items():
        for clock, name in CLOCKS.items():
            if (mechanism, clock) in found:
                against = found[mechanism, clock]
                yield f"`{mechanism}`", ", ".join(systems) or "-", name, "; ".join(against)


def page() -> str:
    """Return the page."""
    heads = ("mechanism", "used by", "clock", "checked against")
    return HEAD + table(heads, rows(collect()))


def main(arguments: list[str]) -> int:
    """Print the page, or write it."""
    return serve(page, PAGE, arguments)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
