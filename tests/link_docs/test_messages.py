"""Every refusal and warning of a link stands in docs/link.md, and nothing else does."""

from __future__ import annotations

import re


def section(page):
    text = page.split("\n### What every message means\n")[1]
    return re.split(r"^## ", text, flags=re.MULTILINE)[0]


def quotes(page):
    """Return the texts in the first column of the section's tables."""
    return re.findall(r"^\| `([^`]+)`", section(page), re.MULTILINE)


def test_the_code_is_read(texts):
    found = [message.text for message in texts.messages()]
    assert len(found) > 140
    for start in ("the link \0 has other settings: \0. Leave", "%s: receiver %r begins in the"):
        assert sum(text.startswith(start) for text in found) == 1
    assert any("a column cannot be dropped" in text or "carries other" in text for text in found)


def test_every_message_has_a_row(page, texts):
    known = quotes(page)
    missing = [
        f"{message.place}: {message.text.replace(texts.HOLE, '...')}"
        for message in texts.messages()
        if not any(texts.is_quoted(message.text, quote) for quote in known)
    ]
    assert missing == []


def test_every_row_is_a_message(page, texts):
    found = [message.text for message in texts.messages()]
    gone = [quote for quote in quotes(page) if not any(texts.is_quoted(m, quote) for m in found)]
    assert gone == []


def test_a_row_says_enough_to_be_found(page):
    for quote in quotes(page):
        assert len(quote.replace("...", " ").split()) >= 2, quote
        assert len([quote for own in quotes(page) if own == quote]) == 1, quote


def test_a_message_that_is_not_there_is_missed(texts):
    assert texts.is_quoted("the link \0 is refused: \0", "the link ... is refused: ...")
    assert not texts.is_quoted("the link \0 is refused: \0", "the link ... is moved")
    assert not texts.is_quoted("b then a", "a ... b")


def test_what_a_restored_checkpoint_says_is_what_is_said(page, texts):
    part = page.split("\n### A checkpoint was restored or lost\n")[1].split("\n### ")[0]
    said = re.findall(r"^\| [^|`]+ \| (.+?) \| ", part, re.MULTILINE)
    found = [message.text for message in texts.messages()]
    shown = [quote for cell in said for quote in re.findall(r"`([^`]+)`", cell)]
    assert len(shown) > 5
    for quote in shown:
        assert any(texts.is_quoted(text, quote) for text in found), quote
