"""What the documents promise: files that exist, a scenario that reads, columns that are there."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template
from xml.etree import ElementTree

import pytest

from flowcontrol.records import LEDGER, RESULTS

ROOT = Path(__file__).resolve().parent.parent.parent
OUTSIDE = ["README.md", "CONTRIBUTING.md"]
"""Pages whose links no build of the site checks."""

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
GUIDES = [*OUTSIDE, *(page for page in PAGES if page.count("/") > 1 and "/reference/" not in page)]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name, language):
    return re.findall(rf"```{language}\n(.*?)```", read(name), re.DOTALL)


def anchors(name):
    """Return what a link may lead to in a page: its headings, as GitHub and the site name them."""
    titles = re.findall(r"^#+ (.+)$", read(name), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_readme_is_short():
    assert len(read("README.md").splitlines()) <= 150


@pytest.mark.parametrize("name", OUTSIDE)
def test_links_lead_somewhere(name):
    for place, _, anchor in re.findall(r"\]\(([^)#\s]*)(#?)([^)\s]*)\)", read(name)):
        if place.startswith("https:"):
            continue
        page = place or name
        assert (ROOT / page).exists(), place
        assert not anchor or anchor in anchors(page), f"{place}#{anchor}"


def test_every_page_is_in_the_contents():
    """The build says so too; this says it without Sphinx."""
    index = read("docs/index.md")
    listed = {f"docs/{word}.md" for word in re.findall(r"^[\w/-]+$", index, re.MULTILINE)}
    assert listed == {*PAGES} - {"docs/index.md"}


def test_every_promise_says_what_it_rests_on_what_breaks_it_and_who_tries():
    promises = re.split(r"^### ", read("docs/promises.md"), flags=re.MULTILINE)[1:]
    assert len(promises) >= 8
    for promise in promises:
        title, text = promise.split("\n", 1)
        assert re.match(r"\s*\*\*.+?\*\*\n", text, re.DOTALL), (
            f"{title}: begins with the promise in bold"
        )
        for part in ("rests on", "breaks it", "`tests/"):
            assert part in text, f"{title}: says nothing of {part!r}"


# A decision is never edited: it names the files of its day.
@pytest.mark.parametrize("name", [p for p in (*OUTSIDE, *PAGES) if "/decisions/" not in str(p)])
def test_files_that_are_named_exist(name):
    text = read(name)
    links = re.findall(r"\]\(([^)#]+)\)", text)
    shown = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|sh|yaml|md|txt|conf|css))`", text)
    commands = re.findall(
        r"\b(?:pipelines|examples|conf|scripts|notebooks)/[\w.-]+\.(?:py|yaml)", text
    )
    places = {word for word in [*links, *shown, *commands] if not word.startswith("http")}
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
    text = " ".join(read("docs/reference/figures.md").split())
    for term, meaning in definitions:
        assert f"**{term}.** {meaning}" in text


def test_the_tutorial_shows_a_scenario_that_is_read():
    import yaml

    from flowcontrol.scenario import check_clock, parse_scenario

    (text,) = blocks("docs/tutorial/first-emulation.md", "yaml")
    scenario = parse_scenario(yaml.safe_load(text))
    assert check_clock(scenario, "live") == []
    assert [stage.name for stage in scenario.stages] == ["source", "sink"]


@pytest.mark.parametrize(("number", "table"), [(0, RESULTS["stages"]), (1, LEDGER)])
def test_columns_of_the_queries_are_there(number, table):
    text = read("docs/tutorial/first-emulation.md")
    query = re.findall(r'spark\.sql\("""(.*?)"""', text, re.DOTALL)[number]
    known = {column.name for column in table.columns}
    bare = re.sub(r"`[^`]*`|'[^']*'|AS \w+", "", query)
    words = set(re.findall(r"\b[a-z]\w*\b", bare)) - {"delta", "floor", "avg"}
    assert words
    assert words <= known


def test_public_names_that_are_shown_are_there():
    import flowcontrol

    names = {
        name
        for page in GUIDES
        for name in re.findall(r"(?<!window\.)\bflowcontrol\.([a-z]\w+)\b(?![/.])", read(page))
    }
    assert {"audit", "emulate", "rounds"} <= names
    packages = {
        "deployment",
        "diagnosis",
        "metrics",
        "scaling",
    }  # what a guide imports from by its full name
    assert all((ROOT / "flowcontrol" / name / "__init__.py").exists() for name in packages)
    assert names - {"yaml"} - packages <= set(flowcontrol.__all__)


def test_every_scenario_is_shown():
    """In the list, or on the page that it was made for."""
    listed = re.findall(
        r"^\| `conf/(.+)\.yaml` \|", read("docs/tutorial/scenarios.md"), re.MULTILINE
    )
    shown = {name for page in PAGES for name in re.findall(r"conf/([\w-]+)\.yaml", read(page))}
    assert len(listed) == len(set(listed)) > 10
    assert {path.stem for path in (ROOT / "conf").glob("*.yaml")} <= shown


def test_the_readme_counts_the_systems():
    from flowcontrol.scenario.system import PRESETS

    assert f"[{len(PRESETS)} systems]" in read("README.md")


def test_every_public_name_is_on_the_page_of_the_api():
    import flowcontrol

    text = read("docs/reference/python.md")
    missing = [name for name in flowcontrol.__all__ if not re.search(rf"\b{name}\b", text)]
    assert missing == []


def test_pictures_are_small_shown_and_load_nothing():
    text = "".join(map(read, ["README.md", *PAGES]))
    for picture in (ROOT / "docs" / "pictures").iterdir():
        assert picture.stat().st_size < 150_000, picture
        assert f"pictures/{picture.name})" in text, picture
        if picture.suffix == ".svg":
            drawn = ElementTree.tostring(ElementTree.parse(picture).getroot(), "unicode")
            assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("page", PAGES)
def test_fenced_blocks_say_what_they_are(page):
    """What says "bash" or "python" is run by a test; anything else is shown, and says as what."""
    fences = re.findall(r"^```(\S*)", read(page), re.MULTILINE)
    assert all(fences[::2]), fences
    assert not any(fences[1::2]), fences
