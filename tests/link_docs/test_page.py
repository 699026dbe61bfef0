"""docs/link.md: its commands run, its tables are the code's, its links lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from modules import load

script = load("scripts/link_reference.py")

ROOT = Path(__file__).resolve().parents[2]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_commands_that_need_members_are_real(page):
    for block in blocks(page, "text"):
        for line in block.splitlines():
            if line.startswith("flowcontrol link "):
                _, _, action, *_ = line.split()
                assert f"| `{action} PATH" in page


@pytest.mark.parametrize("name", ["link.md", "monitoring.md"])
def test_the_tables_are_what_the_code_makes(name):
    is_made = script.page(name) == (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert is_made, "run python scripts/link_reference.py --write"


def test_they_can_be_printed_and_written(tmp_path, monkeypatch, capsys):
    assert script.main([]) == 0
    texts = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in script.PAGES}
    assert capsys.readouterr().out == "".join(texts.values())
    monkeypatch.setattr(script, "DOCS", tmp_path)
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert script.main(["--write"]) == 0
    written = {name: (tmp_path / name).read_text(encoding="utf-8") for name in script.PAGES}
    assert written == texts


def test_every_read_option_has_a_row(page):
    tree = ast.parse((ROOT / "flowcontrol/link/source.py").read_text())
    read = next(
        n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "read_options"
    )
    text = ast.unparse(read)
    names = set(re.findall(r"given\.get\('(\w+)'", text)) | {"reset", "from_start"}
    part = page.split("\n### Read options\n")[1].split("\n### ")[0]
    assert set(re.findall(r"^\| `(\w+)`", part, re.MULTILINE)) == names


def test_its_links_lead_to_sections(page):
    titles = {slug(title) for title in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}
    links = re.findall(r"\]\(#([^)]+)\)", page)
    assert len(links) > 8
    assert set(links) <= titles
    for name, anchor in re.findall(r"\]\((\w+\.md)#([^)]+)\)", page):
        other = (ROOT / "docs" / name).read_text()
        assert anchor in {slug(title) for title in re.findall(r"^#+ (.+)$", other, re.MULTILINE)}


def slug(title):
    """Return the anchor of a title, as GitHub and MyST make it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def test_every_table_is_even(page):
    for block in re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE):
        for line in block.splitlines():
            bare = re.sub(r"`[^`]*`", "", line)
            assert bare.count("|") - bare.count("\\|") == block.split("\n")[0].count("|"), line


def test_the_readme_has_the_same_example(page):
    (example,) = [block for block in blocks(page, "python") if 'link.sender("events")' in block]
    shown = blocks((ROOT / "README.md").read_text(), "python")
    assert all(block == example for block in shown if 'link.sender("events")' in block)


def test_figures_of_the_tutorial_are_in_the_form_that_the_program_prints(page):
    part = page.split("\n## Tutorial")[1].split("\n## ")[0]
    program = (ROOT / "examples/slow_sink.py").read_text()
    summaries = [block for block in blocks(part, "text") if "largest batch" in block]
    assert len(summaries) == 2
    for block in summaries:
        assert max(len(line) for line in block.splitlines()) <= 80
        for start in ("batches that began while the sink was slow", "in between at most"):
            assert start in program
            assert re.search(rf"^{start}", block, re.MULTILINE)
