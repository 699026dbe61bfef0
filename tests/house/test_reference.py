"""Reference pages are what the code makes, whole, and have a row for all that there is."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from flowcontrol.analysis.figures import SECOND_HALF
from flowcontrol.cli.main import COMMANDS
from flowcontrol.experiments.compare import result as compared
from flowcontrol.experiments.sweep.columns import results_table
from flowcontrol.records import TABLES
from flowcontrol.scenario.system import ALIASES, PRESETS, THROTTLE_PARTS, TRANSPORT_PARTS
from modules import load

ROOT = Path(__file__).resolve().parent.parent.parent
REFERENCE = load("scripts/reference.py")


def page(name):
    return (REFERENCE.FOLDER / f"{name}.md").read_text(encoding="utf-8")


def section(text, title):
    """Return what stands below a heading, up to the next of its level or a higher one."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return re.split(rf"^#{{1,{len(found[1])}}} ", found[2], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("name", REFERENCE.MADE)
def test_a_page_is_what_its_script_makes(name, tmp_path, monkeypatch, capsys):
    script = load(f"scripts/{name}.py")
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.page() == text, "run python scripts/reference.py --write"
    assert f"<!-- made by scripts/{name}.py" in text
    assert script.main([]) == 0
    assert capsys.readouterr().out == text
    monkeypatch.setattr(script, "PAGE", tmp_path / "reference" / "page.md")
    assert script.main(["--write"]) == 0
    assert script.PAGE.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", REFERENCE.MADE)
def test_every_table_is_even(name):
    text = load(f"scripts/{name}.py").PAGE.read_text(encoding="utf-8")
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block[:200]


def test_every_page_that_says_it_is_made_is_in_the_list():
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "<!-- made by" in path.read_text()]
    assert sorted(pages) == sorted(load(f"scripts/{name}.py").PAGE for name in REFERENCE.MADE)


def test_one_command_names_what_is_stale_and_writes_it(tmp_path, monkeypatch, capsys):
    import scripts.supported

    monkeypatch.setattr(REFERENCE, "MADE", ("supported",))
    monkeypatch.setattr(REFERENCE, "ROOT", tmp_path)
    monkeypatch.setattr(scripts.supported, "PAGE", tmp_path / "docs" / "supported.md")
    assert REFERENCE.main([]) == 1
    said = "docs/supported.md: run python scripts/reference.py --write\n"
    assert capsys.readouterr().out == said
    assert REFERENCE.main(["--write"]) == 0
    assert REFERENCE.main([]) == 0
    assert capsys.readouterr().out == ""


def test_a_cell_shows_what_it_holds():
    made = REFERENCE.table(("a", "b"), [("out/<name>", "`x|<y>` <z>")])
    assert made == "| a | b |\n| --- | --- |\n| out/&lt;name> | `x\\|<y>` &lt;z> |\n"


def parsers():
    """Yield every command and action with its parser."""
    actions = load("scripts/commands_reference.py").actions
    for command in COMMANDS:
        parser = argparse.ArgumentParser(prog=f"flowcontrol {command.name}")
        command.add(parser)
        yield parser.prog, parser
        yield from ((f"{parser.prog} {name}", one) for name, one in actions(parser).items())


def test_every_argument_of_every_command_has_a_row():
    text, seen = page("commands"), 0
    for title, parser in parsers():
        own = section(text, title)
        for one in load("scripts/commands_reference.py").arguments(parser):
            seen += 1
            for word in one.option_strings:
                assert re.search(rf"^\| `[^|]*{word}\b[^|]*` \| \S", own, re.MULTILINE), (
                    title,
                    word,
                )
    assert seen > 50


def test_an_option_in_a_text_is_code():
    """As text its two hyphens would become a dash."""
    for block in re.split(r"```.*?```", page("commands"), flags=re.DOTALL):
        assert "--" not in re.sub(r"`[^`]*`|<!--.*?-->|\| --- \| --- \|", "", block)


def test_a_usage_is_what_the_parser_takes():
    text = page("commands")
    assert "[--set KEY=VALUE] [--clock {live,virtual}]" in section(text, "flowcontrol emulate")
    assert "--stage STAGE" in section(text, "flowcontrol capacity")
    assert "[--stage STAGE]" not in text
    usage = re.search(r"^usage: flowcontrol link move .*$", text, re.MULTILINE)
    assert usage is not None
    assert usage[0] == "usage: flowcontrol link move [--force] PATH TARGET"
    for title, _ in parsers():
        found = re.search(rf"```text\nusage: ({re.escape(title)}\b.*?)```", text, re.DOTALL)
        assert found is not None, title
        assert max(map(len, found[1].splitlines())) <= 100


def test_every_column_of_every_table_has_a_row():
    text = page("tables")
    swept = [c for c in results_table(()).columns if not c.name.endswith(SECOND_HALF)]
    found = {name: one.columns for name, one in TABLES.items()}
    found |= {
        "sweep": swept,
        "compare": compared.results_table().columns,
        "rates": compared.RATES.columns,
    }
    for title, columns in found.items():
        own = section(text, title)
        names = re.findall(r"^\| `(\w+)` \|", own, re.MULTILINE)
        assert names == [column.name for column in columns]


def test_every_system_and_part_has_a_row_and_a_section():
    text = page("systems")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    for name in (*PRESETS, *ALIASES, *TRANSPORT_PARTS, *THROTTLE_PARTS):
        assert any(f"`{name}`" in row[0] for row in rows), name
    for name, preset in PRESETS.items():
        own = section(text, name)
        assert preset.version in own
        parts = (TRANSPORT_PARTS[preset.transport], THROTTLE_PARTS[preset.throttle])
        for key in (*(key for part in parts for key in part.parameters), *preset.options):
            assert f"| `{key}` | " in own, (name, key)
        assert preset.source in own


def test_links_within_a_page_lead_to_its_sections():
    for name in ("commands", "tables", "systems", "scenario"):
        text = page(name)
        titles = re.findall(r"^##+ (.+)$", text, re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
        links = set(re.findall(r"\]\(#([^)]+)\)", text))
        assert links <= {*anchors, *titles}, name
