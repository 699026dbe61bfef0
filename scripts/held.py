"""What is checked, on which clock, against what: the README's table, made of the tests' markers.

A test that checks a mechanism says so: ``@pytest.mark.holds("pid_rate", "rules", "...")``, or for
all tests of a file in its ``pytestmark``. Nothing else gets into the table.

    python scripts/held.py            print the table
    python scripts/held.py --write    put it into README.md
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

BEGIN = "<!-- made by scripts/held.py from the tests -->"
END = "<!-- end of what scripts/held.py made -->"

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
            mechanism, clock, against = (ast.literal_eval(word) for word in found.args)
            yield mechanism, clock, against


def collect(tests: Path = ROOT / "tests") -> list[Held]:
    """Return all markers, files in the order of their names."""
    return [held for path in sorted(tests.rglob("test_*.py")) for held in held_in(path)]


def mechanisms() -> dict[str, list[str]]:
    """Return every mechanism with the systems that use it, in the order of the table."""
    from flowcontrol.scenario.parts_table import THROTTLE_PARTS, TRANSPORT_PARTS
    from flowcontrol.scenario.presets import PRESETS

    parts = [*TRANSPORT_PARTS, *(name for name in THROTTLE_PARTS if name != "none")]
    found = {
        part: [name for name, p in PRESETS.items() if part in {p.transport, p.throttle}]
        for part in parts
    }
    return found | {name: [] for name in PRESETS if name not in found}


def table(held: Iterable[Held]) -> str:
    """Return the table as Markdown: a row per mechanism and clock."""
    rows: dict[tuple[str, str], list[str]] = {}
    for one in held:
        against = rows.setdefault((one.mechanism, one.clock), [])
        if one.against not in against:
            against.append(one.against)
    lines = ["| mechanism | used by | clock | checked against |", "| --- | --- | --- | --- |"]
    for mechanism, systems in mechanisms().items():
        for clock, name in CLOCKS.items():
            if (mechanism, clock) in rows:
                used = ", ".join(systems) or "-"
                against = "; ".join(rows[mechanism, clock])
                lines.append(f"| `{mechanism}` | {used} | {name} | {against} |")
    return "\n".join(lines)


def replaced(readme: str, made: str) -> str:
    """Return a README with another table between its marks."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Print the table, or write it."""
    made = table(collect())
    if arguments != ["--write"]:
        sys.stdout.write(f"{made}\n")
        return 0
    readme = ROOT / "README.md"
    readme.write_text(replaced(readme.read_text(), made))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
