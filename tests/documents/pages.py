"""The pages, their code blocks, and the commands in them."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SHELL = {"bash", "sh", "shell", "console"}
_PROGRAMS = re.compile(
    r"\$?\s*(\./[\w-]+\.sh|\.\.\.|scripts/[\w.-]+|(\S*/)?(flowcontrol|python3?|pip|pytest))\s"
)
"""How a command begins that hides in a block of no language: it is one all the same."""

_FORM = re.compile(r"\s(PATH|TARGET|NAME|DIR|FILE)\b")
"""What is to be filled in: in a block of no language that is the form of a command, and none."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes
    ----------
    page : str
        Path of the page, below the repository.
    line : int
        Of its first line of text, from 1.
    language : str
        First word of the fence; empty without one.
    words : frozenset of str
        The others: ``output`` is what the block before prints, ``status=2`` how it ends.
    text : str
        What is in it.
    """

    page: str
    line: int
    language: str
    words: frozenset[str]
    text: str

    @property
    def place(self) -> str:
        """Page and line."""
        return f"{self.page}:{self.line}"

    @property
    def is_shell(self) -> bool:
        """Whether a reader types it into a shell."""
        is_bare = self.language in {"", "text"} and "output" not in self.words
        is_typed = _PROGRAMS.match(self.text) is not None and _FORM.search(self.text) is None
        return self.language in SHELL or (is_bare and is_typed)

    @property
    def is_python(self) -> bool:
        """Whether it is Python: also what begins with a call of a session, in no language."""
        return self.language == "python" or self.text.startswith("spark.sql(")

    @property
    def is_output(self) -> bool:
        """Whether the page promises that the block before prints this."""
        return "output" in self.words

    @property
    def status(self) -> int:
        """Exit status with which its last command ends."""
        said = [word.partition("=")[2] for word in self.words if word.startswith("status=")]
        return int(said[0]) if said else 0


def pages() -> list[str]:
    """Return the README and all pages below docs/."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return ["README.md", *(path.relative_to(ROOT).as_posix() for path in found)]


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """Return the fenced blocks of a page, in their order."""
    return tuple(read_blocks(page, (ROOT / page).read_text(encoding="utf-8")))


def read_blocks(page: str, text: str) -> Iterator[Block]:
    """Return the fenced blocks of a text."""
    fence, start, head, inside = "", 0, "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"( *)(`{3,}|~{3,})([^`]*)$", line)
        if not fence and found:
            fence, head, start, inside = found[2], found[3].strip(), number + 1, []
        elif fence and found and found[2].startswith(fence) and not found[3].strip():
            language, *words = head.split() or [""]
            yield Block(page, start, language, frozenset(words), "\n".join(inside) + "\n")
            fence = ""
        elif fence:
            inside.append(line)
    assert not fence, f"{page}:{start}: the block has no end"


def commands(block: Block) -> list[str]:
    """Return the commands of a block, each whole: a line, or several that belong together."""
    found, lines = list[str](), list[str]()
    for line in block.text.splitlines():
        lines.append(line)
        text = "\n".join(lines)
        if _is_whole(text):
            if is_command(text):
                found.append(text.strip())
            lines = []
    assert not lines, f"{block.place}: no shell reads {lines[0]!r} to its end"
    return found


def is_command(text: str) -> bool:
    """Tell whether a text is more than empty lines and comments."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _is_whole(text: str) -> bool:
    if text.endswith("\\"):
        return False
    if not set(text) & set("\"'`(){}<|"):  # nothing that goes on: bash need not be asked
        return True
    return (
        subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).returncode == 0
    )


def words_of(command: str) -> list[str]:
    """Return the words of a simple command; none if it has pipes, variables or several parts."""
    try:
        lexer = shlex.shlex(command.replace("\\\n", " "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return []
    odd = any(set(word) <= set("();<>|&") for word in words)
    return [] if odd or set(command) & set("$`*") else words
