"""What the documents promise: files that exist, a scenario that reads, columns that are there."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

import pytest

from flowcontrol.records import LEDGER, RESULTS

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/design.md",
    "docs/kafka.md",
    "docs/link.md",
    "docs/compare.md",
    "docs/promises.md",
    "docs/reference/scenario.md",
]


def blocks(language):
    text = (ROOT / "README.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_every_promise_says_what_it_rests_on_what_breaks_it_and_who_tries():
    promises = re.split(r"^### ", (ROOT / "docs/promises.md").read_text(), flags=re.MULTILINE)[1:]
    assert len(promises) >= 8
    for promise in promises:
        title, text = promise.split("\n", 1)
        assert re.match(r"\s*\*\*.+?\*\*\n", text, re.DOTALL), (
            f"{title}: begins with the promise in bold"
        )
        for part in ("rests on", "breaks it", "`tests/"):
            assert part in text, f"{title}: says nothing of {part!r}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_that_are_named_exist(name):
    text = (ROOT / name).read_text()
    links = re.findall(r"\]\(([^)#]+)\)", text)
    shown = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|sh|yaml|md|txt|conf|css))`", text)
    folders = "pipelines|examples|conf|scripts|notebooks"
    commands = re.findall(rf"\b(?:{folders})/[\w.-]+\.(?:py|yaml)", text)
    places = {word for word in [*links, *shown, *commands] if not word.startswith("http")}
    assert places
    missing = [
        place
        for place in places
        if not (ROOT / place).exists() and not (ROOT / Path(name).parent / place).exists()
    ]
    assert missing == []


def test_the_figures_of_a_comparison_are_defined_once():
    """The page's definitions stand in the document, word for word."""
    from flowcontrol.experiments.compare.page import DEFINED
    from flowcontrol.report.markup import asset

    page = Template(asset("flowcontrol.experiments.compare", "page.html")).safe_substitute(DEFINED)
    definitions = re.findall(r"<dt>(.+?)</dt>\s*<dd>(.+?)</dd>", " ".join(page.split()))
    assert len(definitions) > 10
    text = " ".join((ROOT / "docs" / "compare.md").read_text().split())
    for term, meaning in definitions:
        assert f"**{term}.** {meaning}" in text


def test_the_readme_shows_a_scenario_that_is_read():
    import yaml

    from flowcontrol.scenario import check_clock, parse_scenario

    (text,) = blocks("yaml")
    scenario = parse_scenario(yaml.safe_load(text))
    assert check_clock(scenario, "live") == []
    assert [stage.name for stage in scenario.stages] == ["source", "sink"]


def test_columns_of_the_queries_are_there():
    queries = [
        query
        for block in blocks("python")
        for query in re.findall(r'"""(.*?)"""', block, re.DOTALL)
    ]
    assert len(queries) == 2
    for query, table in zip(queries, [LEDGER, RESULTS["stages"]], strict=True):
        known = {column.name for column in table.columns}
        bare = re.sub(r"`[^`]*`|'[^']*'|AS \w+", "", query)
        words = set(re.findall(r"\b[a-z]\w*\b", bare)) - {"delta", "floor", "avg"}
        assert words
        assert words <= known


def test_public_names_of_the_readme_are_there():
    import flowcontrol

    text = (ROOT / "README.md").read_text()
    names = set(re.findall(r"\bflowcontrol\.([a-z]\w+)\b(?!/)", text)) - {"yaml"}
    assert names == {"audit", "emulate", "rounds"}
    assert names <= set(flowcontrol.__all__)
