"""Which test files a change can reach: what they import, load, name and get from fixtures.

A test file needs what it imports, what that imports in turn, and the files that it names in a text:
``load("tests/job/small_jobs.py")``, ``CONF / "skew.yaml"``. Of a ``conftest.py`` it needs what the
fixtures need that it asks for. :func:`reach` follows this backwards from what has changed.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

FROM = re.compile(r"\bfrom[ ]+(\.*)([\w.]*)[ ]+import[ ]+(\([^)]*\)|[^\n;\"]+)")
IMPORT = re.compile(r"(?:^|[\"';\n])[ ]*import[ ]+([\w., ]+)")
FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ ]+.*\n|\n)+", re.MULTILINE)
COMMAND = re.compile(r"""-m["', ]+flowcontrol\b""")
TEXT = re.compile(r"""(["'])([\w./ -]+)\1""")
SIGNATURE = re.compile(r"\bdef \w+\(([^)]*)\)")
FIXTURE = re.compile(r"^@pytest\.fixture.*\n(?:[ )@].*\n)*def .*\n(?:(?:[ )].*)?\n)*", re.MULTILINE)
SEARCHED = ("conf", "docs", "examples", "notebooks", "pipelines")
"""Folders: a test that searches in one may read all that is there."""


class Reached(NamedTuple):
    """A file that a change reaches."""

    distance: int  # steps from what has changed
    through: str  # the step before; itself if it has changed


def _git(*words: str, root: Path) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def base(root: Path = ROOT) -> str:
    """Return the commit to compare with: where this left main; on main itself, the one before.

    Empty if there is none.
    """
    head = _git("rev-parse", "HEAD", root=root)
    for name in ("origin/main", "main"):
        found = _git("merge-base", "HEAD", name, root=root)
        if found and found != head:
            return found[0]
    return (_git("rev-parse", "--verify", "-q", "HEAD~1", root=root) or [""])[0]


def changed_files(since: str, root: Path = ROOT) -> list[str]:
    """Return what differs from a commit in this checkout, new files among it."""
    found = {*_git("diff", "--name-only", "--no-renames", since, root=root)}
    return sorted(found | {*_git("ls-files", "--others", "--exclude-standard", root=root)})


def tracked(root: Path = ROOT) -> list[str]:
    """Return the files of the checkout."""
    names = {*_git("ls-files", "--cached", "--others", "--exclude-standard", root=root)}
    return sorted(name for name in names if (root / name).is_file())


class Needs:
    """What the files of a checkout need, as far as their texts show it."""

    def __init__(self, files: Iterable[str], root: Path = ROOT) -> None:
        self._files, self._root = set(files), root
        self._named: dict[str, list[str]] = defaultdict(list)
        for file in self._files:
            self._named[file.rpartition("/")[2]].append(file)

    def graph(self) -> dict[str, set[str]]:
        """Return what each file needs in one step."""
        found: dict[str, set[str]] = {}
        for file in self._files:
            if file.endswith(".py"):
                source = self._source(file)
                own = FIXTURE.sub("", source) if file.endswith("/conftest.py") else source
                found[file] = {*self._of(own, file), *self._of_fixtures(source, file)} - {file}
        named = set().union(*found.values())
        for file in self._files - found.keys() - named:
            # Data of the package that nobody names: what stands beside it reads it.
            for beside in found if file.startswith("flowcontrol/") else ():
                if beside.rpartition("/")[0] == file.rpartition("/")[0]:
                    found[beside].add(file)
        return found

    def _source(self, file: str) -> str:
        return FOR_TYPES.sub("", (self._root / file).read_text(encoding="utf-8"))

    def _of(self, source: str, file: str) -> Iterator[str]:
        """Yield what a text needs, which may be that of programs in it, too."""
        folder = file.rpartition("/")[0]
        for dots, module, names in FROM.findall(source):
            own = folder.split("/")
            package = own[: len(own) - len(dots) + 1] if dots else []
            name = ".".join([*package, *([module] if module else [])])
            for imported in re.findall(r"\w+", names):
                yield from self._module(f"{name}.{imported}", folder)
        for names in IMPORT.findall(source):
            for name in names.split(","):
                yield from self._module(name.split()[0] if name.split() else "", folder)
        if COMMAND.search(source):
            yield from self._module("flowcontrol.__main__", folder)
        texts = {text for _, text in TEXT.findall(source)}
        is_test = file.startswith("tests/")
        for text in texts:
            yield from self._path(text, is_test=is_test)
        for named in texts.intersection(SEARCHED) if is_test and "glob(" in source else ():
            yield from (one for one in self._files if one.startswith(f"{named}/"))

    def _module(self, name: str, folder: str) -> Iterator[str]:
        """Yield the file of a module, or of that whose name it is; helpers stand beside tests."""
        parts = name.split(".")
        if parts[0] != "flowcontrol":
            for place in (f"{folder}/", "tests/", "scripts/", "bench/", ""):
                for length in range(len(parts), 0, -1):
                    if (found := f"{place}{'/'.join(parts[:length])}.py") in self._files:
                        yield found
                        return
            return
        for length in range(len(parts), 0, -1):
            path = "/".join(parts[:length])
            for found in (f"{path}.py", f"{path}/__init__.py"):
                if found in self._files:
                    yield found
                    return

    def _path(self, text: str, *, is_test: bool) -> Iterator[str]:
        """Yield the file of a path, or of a name that one file alone has; of conf/, of a stem."""
        if text in self._files:
            yield text
            return
        names = [text.rpartition("/")[2], *([f"{text}.yaml", f"{text}.ipynb"] if is_test else [])]
        for name in names:
            if "." in name and len(found := self._named.get(name, [])) == 1:
                yield from found

    def _of_fixtures(self, source: str, file: str) -> Iterator[str]:
        """Yield what a test file needs of each conftest above it."""
        if not file.startswith("tests/") or file.endswith("/conftest.py"):
            return
        asked = _asked(source)
        for folder in PurePosixPath(file).parents:
            conftest = f"{folder}/conftest.py"
            fixtures = dict(self._fixtures.get(conftest, {}))
            if fixtures or conftest in self._files:
                yield conftest
            waiting = [name for name, own in fixtures.items() if name in asked or own.is_for_all]
            while waiting:
                if (own := fixtures.pop(waiting.pop(), None)) is not None:
                    yield from own.needs
                    asked |= own.asks
                    waiting += own.asks & fixtures.keys()

    @cached_property
    def _fixtures(self) -> dict[str, dict[str, _Fixture]]:
        found: dict[str, dict[str, _Fixture]] = {}
        for file in self._named["conftest.py"]:
            own = found[file] = {}
            for text in FIXTURE.findall(self._source(file)):
                head = re.search(r"\bdef (\w+)\(", text)
                if head is not None:
                    needs, for_all = frozenset(self._of(text, file)), "autouse" in text
                    own[head[1]] = _Fixture(needs, frozenset(_asked(text)), for_all)
        return found


class _Fixture(NamedTuple):
    needs: frozenset[str]
    asks: frozenset[str]  # names of other fixtures, among others
    is_for_all: bool


def _asked(source: str) -> set[str]:
    """Return the names that may be those of fixtures."""
    found = {word for words in SIGNATURE.findall(source) for word in re.findall(r"\w+", words)}
    return found | {*re.findall(r"(?:usefixtures|getfixturevalue)\(\"(\w+)\"", source)}


def reach(changed: Iterable[str], needs: Mapping[str, set[str]]) -> dict[str, Reached]:
    """Return every file that needs one of those that have changed, the nearest first."""
    needed_by: dict[str, list[str]] = defaultdict(list)
    for file, needed in needs.items():
        for one in needed:
            needed_by[one].append(file)
    found = {file: Reached(0, file) for file in changed}
    waiting = deque(found)
    while waiting:
        file = waiting.popleft()
        for user in sorted(needed_by[file]):
            if user not in found:
                is_list = user.endswith("__init__.py")  # it hands names on: no step of its own
                found[user] = Reached(found[file].distance + (not is_list), file)
                (waiting.appendleft if is_list else waiting.append)(user)
    return found


def is_test(file: str) -> bool:
    """Tell whether pytest collects a file."""
    path = PurePosixPath(file)
    return path.parts[0] == "tests" and path.name.startswith("test_") and path.suffix == ".py"
