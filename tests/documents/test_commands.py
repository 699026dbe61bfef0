"""No page shows a command, or Python, that a test does not run: here, or where elsewhere.py says.

A page is run from top to bottom, in a folder of its own. Each command ends with status 0, or as the
fence says: ``bash status=2``. A block ``text output`` behind it is what it prints.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modules import load

pages, tools = load("tests/documents/pages.py"), load("tests/documents/sandbox.py")
TABLE = load("tests/documents/elsewhere.py").TABLE
ROOT = pages.ROOT

LONG = ("pipelines/sweep.py", "pipelines/compare.py")
"""Start a JVM for what other tests do in the shared session: in the long form they are typed."""

SHOWN_ELSEWHERE = ("docs/tutorial/first-emulation.md", "docs/explanation/event-time.md")
"""Pages whose JVM only the long form starts: the README shows most of the first, and the job of the
second runs on the stand-in for Spark, in tests/live/test_window_flights.py."""

SLOW = ("--vary buffers-per-channel=0,1,2,4", "--vary floating-buffers-per-gate=1,8,32,128")
"""Sweeps beside one of the same page with another key: the quick form runs that one."""


def elsewhere(text: str, is_python: bool) -> bool:
    """Tell whether a command, or a block of Python, is run somewhere else."""
    return any(row.begins in text if is_python else text.startswith(row.begins) for row in TABLE)


class Step:
    """A command of a page, or a block of Python, and what the page says that it prints."""

    def __init__(self, block: Any, text: str, is_python: bool) -> None:
        self.block, self.text, self.is_python = block, text, is_python
        self.promised = ""
        self.status = 0

    @property
    def needs_spark(self) -> bool:
        """Whether it needs a session or starts a JVM."""
        if self.is_python:
            return bool(tools.python_needs_spark(self.text))
        return bool(tools.needs_spark(self.text))

    @property
    def is_long(self) -> bool:
        """Whether only the long form runs it."""
        return self.needs_spark and any(word in self.text for word in LONG)


def steps(page: str) -> list[Step]:
    """Return what is run here of a page, in its order."""
    found, last = list[Step](), None
    for block in pages.blocks(page):
        if block.is_output:
            assert last is not None, f"{block.place}: there is nothing before it that prints this"
            last.promised += block.text
        elif block.is_shell or block.is_python:
            texts = [block.text] if block.is_python else pages.commands(block)
            own = [Step(block, text, block.is_python) for text in texts]
            own = [step for step in own if not elsewhere(step.text, step.is_python)]
            if own:
                own[-1].status = block.status
            found += own
            last = own[-1] if own else None
    return found


def is_fast(step: Step) -> bool:
    """Tell whether it needs no JVM; in the quick form, and it is quick."""
    is_slow = any(words in step.text for words in SLOW)
    return not step.needs_spark and ("FLOWCONTROL_LONG" in os.environ or not is_slow)


def is_live(step: Step) -> bool:
    """Tell whether it needs one, and the quick form runs it."""
    return step.needs_spark and not step.is_long


def is_long(step: Step) -> bool:
    """Tell whether only the long form runs it."""
    return step.is_long


def pages_with(is_wanted: Callable[[Step], bool]) -> list[str]:
    """Return the pages with such steps."""
    return [page for page in pages.pages() if any(map(is_wanted, steps(page)))]


def follow(
    page: str, sandbox: Any, names: dict[str, Any], is_wanted: Callable[[Step], bool]
) -> None:
    """Run such steps of a page, in their order."""
    found = steps(page)
    chosen = list(filter(is_wanted, found))
    is_started = any("spark-submit.sh" in step.text for step in chosen)
    if is_started and not (Path(sys.prefix) / "flowcontrol" / "ready-run").exists():
        pytest.skip("the start script did not make this environment: run ./run-tests.sh")
    for step in found:
        if step not in chosen:
            sandbox.imports(step.block, names)
            continue
        place = f"{step.block.place}: {step.text}"
        if step.is_python:
            printed = sandbox.execute(step.block, names)
        else:
            done = sandbox.run(step.text)
            assert done.status == step.status, f"{place}\n{done.out}{done.err}"
            printed = done.out if step.status == 0 else done.out + done.err
        missing = tools.shows(printed, step.promised)
        assert not missing, f"{place}\ndoes not print\n{missing}\nbut\n{printed}"


@pytest.mark.parametrize("page", pages_with(is_fast))
def test_a_page_does_what_it_shows(page: str, sandbox: Any) -> None:
    follow(page, sandbox, {}, is_fast)


@pytest.mark.spark
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.long] * (page in SHOWN_ELSEWHERE))
        for page in pages_with(is_live)
    ],
)
def test_what_needs_spark_does_what_a_page_shows(
    page: str, sandbox: Any, request: pytest.FixtureRequest
) -> None:
    """Python gets the shared session."""
    needs_session = any(is_live(step) and step.is_python for step in steps(page))
    names = {"spark": request.getfixturevalue("spark")} if needs_session else {}
    follow(page, sandbox, names, is_live)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("page", pages_with(is_long))
def test_what_takes_long_does_what_a_page_shows(page: str, sandbox: Any) -> None:
    follow(page, sandbox, {}, is_long)


def test_a_slow_sweep_stands_beside_a_quick_one() -> None:
    for words in SLOW:
        [page] = [page for page in pages.pages() if any(words in step.text for step in steps(page))]
        texts = [step.text for step in steps(page) if step.text.startswith("flowcontrol sweep")]
        assert [text for text in texts if not any(slow in text for slow in SLOW)]


# ------------------------------------------------------------------------- the table


def shown() -> list[str]:
    """Return every command and every block of Python that a page shows."""
    found = list[str]()
    for page in pages.pages():
        for block in pages.blocks(page):
            if block.is_shell:
                found += pages.commands(block)
            elif block.is_python:
                found.append(block.text)
    return found


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.begins[:40])
def test_what_is_run_elsewhere_is_run_there(row: Any) -> None:
    file, _, test = row.runs.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert row.mentions in text
    assert not test or f"def {test}(" in text
    assert row.why
    assert any(row.begins in text for text in shown()), "no page shows it: take the row out"


def test_a_command_in_no_language_is_one_all_the_same() -> None:
    texts = ["```text\n./run-tests.sh --long", "```text\nBottleneck: sink", "```\nflowcontrol x"]
    texts.append("```text\nflowcontrol link show PATH")
    text = "".join(f"{block}\n```\n" for block in texts)
    found = [block.is_shell for block in pages.read_blocks("page", text)]
    assert found == [True, False, True, False]


def test_commands_are_read_whole() -> None:
    text = (
        "```bash status=2\n# a comment\nfirst \\\n  --flag\nx=$(cat <<'A'\ntwo\nA\n)\n\nlast\n```"
    )
    [block] = pages.read_blocks("page", text)
    assert pages.commands(block) == ["first \\\n  --flag", "x=$(cat <<'A'\ntwo\nA\n)", "last"]
    assert (block.status, block.place) == (2, "page:2")


@pytest.mark.parametrize(
    ("promised", "missing"),
    [
        ("a  \n\nb\n", ""),
        ("b\nc\n", ""),
        ("a\nc\n", "c"),
        ("a\n...\nc\n", ""),
        ("c\n...\na\n", "a"),
        ("a\nbb\n", "bb"),
        ("", ""),
    ],
)
def test_output_is_compared_line_by_line(promised: str, missing: str) -> None:
    assert tools.shows("a\nb \n\nc\n", promised) == missing
