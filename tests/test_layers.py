"""The shape of the package: which layer imports which, what an import costs, sizes, docstrings."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from flowcontrol.kernel.compiled import KERNEL, RULES

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "flowcontrol"

# Each room, and the rooms that it may import besides itself. Imports go one way.
BASE = {"arrays", "errors", "notices", "version", "records", "scenario"}
SYSTEMS = {"systems", "systems/throttles", "systems/transports"}
PURE = BASE | SYSTEMS | {"state", "protocol"}
LAYOUT = PURE | {"layout", "trace"}
CORE = LAYOUT | {"memory", "kernel", "control", "results"}
KIT = CORE | {"files", "folders", "virtual", "analysis", "report", "topics", "experiments"}
ALLOWED = {
    "arrays": set(),
    "errors": set(),
    "files": {"errors"},
    "folders": {"errors", "files", "ledger"},
    "notices": set(),
    "records": {"errors", "files"},
    "lazy": set(),
    "version": set(),
    "scenario": {"errors", "notices", "version", "records", "files", "graphs"},
    "graphs": {"errors", "protocol"},
    # The rules, and what they run on.
    "state": set(),
    "protocol": {"errors", "state"},
    "systems": {"errors", "state", "protocol"},
    "systems/throttles": {"errors", "scenario", "state", "protocol", "systems"},
    "systems/transports": {"scenario", "state", "protocol"},
    "spec": {"errors", "state", "protocol"},
    # A job in rounds.
    "layout": PURE,
    "trace": PURE | {"layout"},
    "memory": PURE | {"layout", "trace"},
    "kernel": PURE | {"layout", "trace", "memory", "files"},
    "control": PURE | {"layout", "trace", "memory", "kernel"},
    "results": PURE | {"layout", "trace", "memory", "kernel", "control"},
    # The two clocks.
    "virtual": CORE,
    "live": CORE | {"folders", "ledger", "spark"},
    # Everything around them.
    "ledger": BASE | {"state", "protocol"},
    "spark": {"errors", "notices", "version"},
    "link": BASE | {"files", "state", "protocol", "ledger", "spark", "analysis", "report"},
    "scaling": {"errors", "scenario"},
    "scaling/runs": CORE | {"virtual", "scaling"},
    "deployment": LAYOUT | {"graphs", "results"},
    "metrics": {"deployment", "protocol", "records", "scenario"},
    "analysis": BASE | {"protocol", "layout"},
    "diagnosis": {"lazy"},
    "report": BASE | {"files", "graphs", "deployment", "layout", "analysis"},
    "topics": CORE | {"files", "analysis", "report", "metrics"},
    "experiments": CORE | {"folders", "virtual", "spark", "analysis", "report"},
    "experiments/capacity": CORE | {"analysis", "experiments", "experiments/compare", "report"},
    "experiments/sweep": KIT | {"ledger", "spark"},
    "experiments/advise": KIT | {"graphs"},
    "experiments/tune": KIT | {"experiments/sweep", "spark"},
    "experiments/compare": KIT | {"spark", "run"},
    "calibration": BASE
    | {"files", "folders", "ledger", "link", "analysis", "report", "run"}
    | {"experiments/advise"},
    "run": CORE
    | {"files", "folders", "virtual", "ledger", "spark", "live", "analysis", "report", "topics"}
    | {"deployment", "experiments", "experiments/advise", "scaling/runs"},
    "stepview": KIT | {"run", "experiments/compare"},
    "cli": KIT
    | {"ledger", "link", "spark", "run", "stepview", "calibration"}
    | {f"experiments/{name}" for name in ("advise", "capacity", "sweep", "tune", "compare")},
    "__main__": {"cli"},
}

# What `import flowcontrol` must not load: engines, compilers, plots.
HEAVY = {"pyspark", "delta", "py4j", "numba", "plotly", "matplotlib", "optuna"}
# Layers that may name an engine at the top of a module.
ON_SPARK = {"spark", "live", "link", "memory", "kernel"}

FILE_LINES = 500
FUNCTION_LINES = 80
LONG_FUNCTION_LINES = 45
LONG_FUNCTION_SHARE = 1 / 20
# Of functions that the kernel compiles.
COMPLEXITY = 15
PARAMETERS = 8
PIPELINE_LINES = 100
PUBLIC_NAMES = 25


def layer(parts: tuple[str, ...]) -> str:
    """Return the layer of a module by the parts of its name below the package."""
    return inner if (inner := "/".join(parts[:2])) in ALLOWED else parts[0]


class Module(NamedTuple):
    """A parsed source file."""

    path: Path
    tree: ast.Module

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def layer(self) -> str:
        """The package that it is in; empty for the ``__init__`` of the whole."""
        parts = self.path.relative_to(PACKAGE).with_suffix("").parts
        return layer(parts).replace("__init__", "")


@cache
def parse(path: Path) -> Module:
    return Module(path, ast.parse(path.read_text(), str(path)))


def modules(folder: Path = PACKAGE) -> list[Module]:
    return [parse(path) for path in sorted(folder.rglob("*.py"))]


def imports(node: ast.AST, path: Path) -> Iterator[str]:
    """Yield the full name of every module that is imported anywhere below a node."""
    for found in ast.walk(node):
        if isinstance(found, ast.Import):
            yield from (alias.name for alias in found.names)
        elif isinstance(found, ast.ImportFrom):
            package = path.relative_to(ROOT).parent.parts
            base = package[: len(package) - found.level + 1] if found.level else ()
            name = ".".join([*base, *([found.module] if found.module else [])])
            # `from flowcontrol import report` imports a module as well as a name.
            yield from (f"{name}.{alias.name}" for alias in found.names)


def layer_of(imported: str) -> str | None:
    parts = imported.split(".")
    return layer(tuple(parts[1:])) if parts[0] == "flowcontrol" and len(parts) > 1 else None


def top_level(module: Module) -> ast.Module:
    """Return the statements that run on import: no function bodies, no TYPE_CHECKING blocks."""
    kept = [
        node
        for node in module.tree.body
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    return ast.Module(body=kept, type_ignores=[])


def wrong_imports(module: Module) -> list[str]:
    """Return the layers that a module imports and may not."""
    own = module.layer
    layers = {layer_of(name) for name in imports(module.tree, module.path)} - {None, own}
    known = {layer for layer in layers if layer in ALLOWED}
    return sorted(known - ALLOWED[own])


def test_there_are_modules_to_look_at():
    assert len(modules()) > 20


def test_every_module_belongs_to_a_layer():
    layers = {module.layer for module in modules()} - {""}
    assert layers <= set(ALLOWED)


@pytest.mark.parametrize("layer", sorted(ALLOWED))
def test_imports_go_one_way(layer):
    wrong = {m.name: wrong_imports(m) for m in modules() if m.layer == layer and wrong_imports(m)}
    assert wrong == {}


def test_the_layers_have_no_cycle():
    from graphlib import TopologicalSorter

    assert len(list(TopologicalSorter(ALLOWED).static_order())) == len(ALLOWED)


def test_the_design_lists_every_room_below_those_that_it_imports():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    block = text.partition("## Rooms")[2].partition("```text\n")[2].partition("```")[0]
    heads = [line.split("  ")[0].strip(",") for line in block.splitlines() if line[0] != " "]
    listed = [room for head in heads for room in head.split(", ")]
    rooms = {name.partition("/")[0] for name in ALLOWED} - {"__main__"}
    assert sorted(listed) == sorted(rooms)
    # Folders of experiments are rooms of their own, which others above import.
    for room in listed:
        below = {name.partition("/")[0] for name in ALLOWED[room]} - {room}
        assert below <= set(listed[: listed.index(room)]), room


def test_no_clock_knows_the_other_and_the_kernel_none():
    clocks = {"virtual", "live"}
    assert not any(clocks & ALLOWED[room] for room in ("kernel", "control", "results", *clocks))


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("from flowcontrol.live import x", ["live"]),
        ("from flowcontrol import ledger", ["ledger"]),
        ("from flowcontrol.spec import BarrierAligner", ["spec"]),
        ("import flowcontrol.report.page", ["report"]),
        ("from ..scenario import Scenario", ["scenario"]),
        ("def f():\n    from flowcontrol.virtual import run", ["virtual"]),
        ("from flowcontrol.errors import ProtocolError\nfrom .rules import f", []),
    ],
)
def test_a_wrong_import_is_seen(source, wrong):
    module = Module(PACKAGE / "protocol" / "planted.py", ast.parse(source))
    assert wrong_imports(module) == wrong


# Layers without clock, chance, files and other packages, and what of ours they may import.
PURE = {
    "state": ("state",),
    "protocol": ("protocol", "state", "errors"),
    "spec": ("spec", "protocol", "state", "errors"),
    "systems": ("systems", "protocol", "state", "scenario.system"),
}


@pytest.mark.parametrize("layer", PURE)
def test_rules_are_pure(layer):
    """The standard library and what is named: no clock, no chance, no files, no other package."""
    ours = tuple(f"flowcontrol.{name}" for name in PURE[layer])
    impure = {
        "asyncio",
        "datetime",
        "io",
        "os",
        "pathlib",
        "random",
        "secrets",
        "time",
        "threading",
    }
    for module in modules(PACKAGE / layer):
        for name in imports(module.tree, module.path):
            first = name.split(".")[0]
            pure = first in sys.stdlib_module_names and first not in impure
            assert name.startswith(ours) or pure, f"{module.name} imports {name}"


def test_no_run_imports_the_specification():
    assert not any("spec" in imported for imported in ALLOWED.values())


def test_engines_are_imported_late_elsewhere():
    for module in modules():
        if module.layer not in ON_SPARK:
            found = {name.split(".")[0] for name in imports(top_level(module), module.path)}
            assert not found & HEAVY, f"{module.name} imports {found & HEAVY} when it is loaded"


def test_importing_the_package_is_cheap():
    """A fresh interpreter: this one has pyspark loaded long since."""
    code = f"import sys, flowcontrol; print(sorted({HEAVY!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("[]\n", "")


RULE_FILES = sorted(path for path in (PACKAGE / "protocol" / "network").glob("*rules.py"))


def defined(tree: ast.AST) -> set[str]:
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_a_rule_is_written_once():
    rules = {name for path in RULE_FILES for name in defined(parse(path).tree) if name[0] != "_"}
    assert len(rules) >= 10
    for module in modules():
        if module.path not in RULE_FILES:
            top = {node.name for node in module.tree.body if isinstance(node, ast.FunctionDef)}
            assert not top & rules, f"{module.name} defines {top & rules} again"


# credit, backlog and required, as design section 2 defines them.
FORMULAS = {
    ("announced", ast.Sub, "sent"),
    ("released", ast.Sub, "sent"),
    ("backlog", ast.Add, "initial_credit"),
    ("backlog", ast.Add, "exclusive"),
}


def last_name(node: ast.expr) -> str:
    """Return ``sent`` for ``sent``, ``channel.sent`` and ``row["sent"]``."""
    if isinstance(node, ast.Subscript):
        node = node.slice
    if isinstance(node, ast.Constant):
        return str(node.value)
    return getattr(node, "attr", getattr(node, "id", ""))


def formulas(tree: ast.AST) -> list[str]:
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and (last_name(node.left), type(node.op), last_name(node.right)) in FORMULAS
    ]


def test_a_formula_of_the_protocol_stands_in_the_rules_only():
    """As far as names show it. An audit may: it checks the rules' results against the design."""
    for module in modules():
        if module.path not in RULE_FILES and not module.path.stem.startswith("audit"):
            assert formulas(module.tree) == [], module.name


@pytest.mark.parametrize(
    "source", ["c.announced - c.sent", "row['released'] - row['sent']", "backlog + initial_credit"]
)
def test_a_formula_is_recognised(source):
    assert formulas(ast.parse(source)) == [source]


SOURCES = [
    path.relative_to(ROOT)
    for folder in ("flowcontrol", "pipelines", "examples", "tests", "bench", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def test_no_file_is_too_long():
    lengths = {str(path): len((ROOT / path).read_text().splitlines()) for path in SOURCES}
    assert {path: lines for path, lines in lengths.items() if lines > FILE_LINES} == {}


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function, its docstring left out."""
    first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
    return (node.end_lineno or 0) - first.lineno + 2


def test_no_function_is_too_long():
    found = {
        f"{module.name}:{node.name}": length(node)
        for module in modules()
        for node in functions(module.tree)
    }
    assert {name: lines for name, lines in found.items() if lines > FUNCTION_LINES} == {}
    long = {name: lines for name, lines in found.items() if lines > LONG_FUNCTION_LINES}
    assert len(long) <= LONG_FUNCTION_SHARE * len(found), long


def complexity(node: ast.AST) -> int:
    """Return the cyclomatic complexity of a function, as ruff's C901 counts it."""
    branches = ast.If | ast.For | ast.While | ast.comprehension | ast.ExceptHandler | ast.Match
    return 1 + sum(isinstance(found, branches) for found in ast.walk(node))


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    own = node.args
    return len(own.posonlyargs) + len(own.args) + len(own.kwonlyargs)


def test_functions_of_the_kernel_are_simple():
    """Those of every module that numba is handed, of its rules and of its own."""
    kernel = [PACKAGE / "kernel" / f"{name}.py" for name in KERNEL.split()]
    for package, names in RULES.items():
        kernel += [PACKAGE / package.replace(".", "/") / f"{name}.py" for name in names.split()]
    kernel += (PACKAGE / "systems" / "transports").glob("*.py")
    found = {
        f"{parse(path).name}:{node.name}": (complexity(node), parameters(node))
        for path in kernel
        for node in functions(parse(path).tree)
    }
    assert len(found) > 500
    complex_ones = {name: n for name, (n, _) in found.items() if n > COMPLEXITY}
    wide_ones = {name: n for name, (_, n) in found.items() if n > PARAMETERS}
    assert (complex_ones, wide_ones) == ({}, {})


def test_a_complex_function_is_seen():
    source = "def f(a, b, *, c):\n if a:\n  return [x for x in b]\n while c:\n  c -= 1"
    [found] = functions(ast.parse(source))
    assert (complexity(found), parameters(found)) == (4, 3)


def test_pipelines_hold_no_logic():
    for module in modules(ROOT / "pipelines"):
        assert len(module.path.read_text().splitlines()) < PIPELINE_LINES, module.name


def undocumented(module: Module) -> list[str]:
    """Return what is public and has no docstring: the module, classes, functions, methods."""
    found = [] if ast.get_docstring(module.tree) else ["the module"]
    nodes: list[ast.AST] = [module.tree]
    while nodes:
        for node in ast.iter_child_nodes(nodes.pop()):
            kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            if not isinstance(node, kinds) or node.name.startswith("_"):
                continue
            overloaded = any("overload" in ast.unparse(d) for d in node.decorator_list)
            if not ast.get_docstring(node) and not overloaded:
                found.append(node.name)
            if isinstance(node, ast.ClassDef):
                nodes.append(node)
    return found


def test_everything_public_is_described():
    silent = {m.name: undocumented(m) for m in modules() if undocumented(m)}
    assert silent == {}


def test_few_names_are_public_at_the_top():
    import flowcontrol

    assert len(getattr(flowcontrol, "__all__", ())) <= PUBLIC_NAMES
