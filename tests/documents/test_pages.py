"""What single pages promise beyond that their commands run."""

from __future__ import annotations

import re
from typing import Any

from modules import load

pages = load("tests/documents/pages.py")
QUESTIONS = "docs/howto/flink-questions.md"


def test_the_first_round_without_credit_comes_after_the_consumer_slows(sandbox: Any) -> None:
    """The example of ``flowcontrol.rounds``, wherever it stands."""
    import flowcontrol

    found = [
        block
        for page in pages.pages()
        for block in pages.blocks(page)
        if block.is_python and "flowcontrol.rounds(" in block.text
    ]
    assert found
    for block in found:
        printed = sandbox.execute(block, {"flowcontrol": flowcontrol})
        assert 20 < float(printed.split(" s: ")[0]) < 25


def test_each_of_six_questions_is_answered_by_a_command_of_one_line() -> None:
    _, *sections = re.split(
        r"^## ", (pages.ROOT / QUESTIONS).read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert len(sections) == 6
    for section in sections:
        title, text = section.split("\n", 1)
        assert title.endswith("?")
        found = list(pages.read_blocks(QUESTIONS, text))
        for asked, answered in zip(found[::2], found[1::2], strict=True):
            [command] = pages.commands(asked)
            assert command.startswith("flowcontrol ")
            assert "\n" not in command
            assert len(command) <= 110
            assert answered.is_output
