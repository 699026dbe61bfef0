"""The page: one file, well formed, everything in it, nothing fetched, every name escaped."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.report.markup import asset
from flowcontrol.topics.shown import report_page, write_report

VOID = {"meta", "br", "hr", "img", "input", "link", "rect", "line", "path"}
FETCHING = {"src", "href", "xlink:href", "srcset", "data", "action", "poster", "background"}
SECTIONS = [
    "figures-of-the-run", "job-graph", "section-rates", "section-channels", "section-in-flight",
    "section-pools", "section-shares", "section-latency", "stages", "scenario",
]  # fmt: skip


class Page(HTMLParser):
    """Reads a page and refuses tags that do not match."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.contents: dict[str, list[str]] = {}
        self.feed(markup)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another"

    def handle_data(self, data: str) -> None:
        self.contents.setdefault(self.open[-1] if self.open else "", []).append(data)

    def ids(self) -> list[str]:
        return [attrs["id"] or "" for _, attrs in self.tags if "id" in attrs]

    def script(self, name: str) -> str:
        """Return the content of a script by its id."""
        scripts = [attrs for tag, attrs in self.tags if tag == "script"]
        at = [attrs.get("id") for attrs in scripts].index(name)
        return self.contents["script"][at]

    def unpacked(self, name: str) -> bytes:
        """Return what is packed in a script."""
        return gzip.decompress(base64.b64decode(self.script(name)))

    def text(self) -> str:
        shown = (
            part
            for tag, parts in self.contents.items()
            if tag not in {"script", "style"}
            for part in parts
        )
        return " ".join(shown)


def page_of(run: Any) -> str:
    return report_page(run.tables, run.summary, run.scenario)


@pytest.fixture(scope="module")
def markup(experiment: Any) -> str:
    return page_of(experiment)


@pytest.fixture(scope="module")
def page(markup: str) -> Page:
    return Page(markup)


def test_every_section_is_there_once(page: Page) -> None:
    ids = page.ids()
    assert [name for name in ids if name in SECTIONS] == SECTIONS
    assert len(ids) == len(set(ids))


def test_the_headline_is_the_sentence(page: Page, experiment: Any) -> None:
    assert experiment.summary["sentence"] in page.text()
    assert ("p", {"class": "headline limited"}) in page.tags


def test_key_figures_and_run_line(page: Page) -> None:
    text = page.text()
    assert "Structured Streaming, live · 100 s emulated in 52 s · 500 rounds of 200 ms" in text
    for label in ("Producers emitted", "Consumers took up", "Most blocked", "In flight", "Latency"):
        assert label in text


def test_nothing_is_fetched(page: Page) -> None:
    for tag, attrs in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not FETCHING & set(attrs), (tag, attrs)
    style = "".join(page.contents["style"])
    assert "url(" not in style
    assert "@import" not in style


def test_the_browser_is_told_to_fetch_nothing(page: Page) -> None:
    policies = [
        attrs["content"]
        for tag, attrs in page.tags
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == [
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "img-src data: blob:"
    ]


def test_our_own_script_calls_nothing_outside(page: Page) -> None:
    ours = page.contents["script"][-1]
    assert "Plotly.react" in ours
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|import\(", ours)


def test_plotly_is_there_once_as_npm_has_it(page: Page) -> None:
    """Of ``plotly.js-cartesian-dist-min`` 4.1.1; a page is not to be larger than 2 MB."""
    script = page.unpacked("plotly")
    assert hashlib.sha256(script).hexdigest() == (
        "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a"
    )
    assert b"plotly.js (cartesian - minified) v4.1.1" in script[:100]
    assert len(page.script("plotly")) < 700_000


@pytest.mark.parametrize("name", ["experiment", "fan", "large"])
def test_no_page_is_larger_than_two_megabytes(name: str, request: pytest.FixtureRequest) -> None:
    assert len(page_of(request.getfixturevalue(name))) < 2_000_000


def test_plotly_s_licence_stands_beside_it() -> None:
    text = asset("flowcontrol.report", "plotly-LICENSE.txt")
    assert text.startswith("MIT License")


def test_every_figure_has_its_place(page: Page) -> None:
    figures = json.loads(page.script("figures"))
    assert list(figures) == ["rates", "channels", "in-flight", "pools", "shares", "latency"]
    assert set(figures) <= set(page.ids())


def test_the_table_names_every_stage_and_its_pressure(page: Page) -> None:
    cells = page.contents["td"]
    assert {"producer", "consumer", "66,080", "661", "4.51 s"} <= set(cells)
    badges = [text for text in page.contents["span"] if text.strip()]
    assert badges == ["LOW", "OK"]


def test_what_a_stage_does_not_have_is_left_blank(experiment: Any) -> None:
    markup = page_of(experiment).partition('<details id="pool-readings">')[0]
    row = re.search(r"<tr><td>producer</td>.*?</tr>", markup)
    assert row is not None
    heads = re.findall(r'<th scope="col">(.*?)</th>', markup)
    cells = dict(zip(heads, re.findall(r"<td>(.*?)</td>", row[0]), strict=True))
    blank = {"Records in", "In /s", "Skew", "In pool", "Queued", "Latency p50", "p99", "max"}
    assert {head for head, cell in cells.items() if not cell} == blank
    assert cells["Records out"] == "66,080"


def test_the_scenario_can_be_read_and_run_again(page: Page, experiment: Any) -> None:
    from flowcontrol.scenario import parse_scenario

    yaml = pytest.importorskip("yaml")
    shown = yaml.safe_load("".join(page.contents["pre"]))
    assert parse_scenario(shown) == experiment.scenario


def test_names_are_escaped_everywhere(hostile: Any) -> None:
    markup = page_of(hostile)
    head = markup[: markup.index('<script type="application/gzip"')]
    assert "<b>" not in head
    assert "alert(1)</script>" not in head
    page = Page(markup)
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 4
    assert "<b>x</b>" in page.contents["td"]


@pytest.mark.parametrize("name", ["fan", "large", "empty"])
def test_other_runs_make_a_whole_page_too(name: str, request: pytest.FixtureRequest) -> None:
    page = Page(page_of(request.getfixturevalue(name)))
    assert [found for found in page.ids() if found in SECTIONS] == SECTIONS


def test_a_run_that_ended_early_says_so(empty: Any) -> None:
    text = Page(page_of(empty)).text()
    assert "ended early, 0 of 100 s emulated" in text
    assert "the run ended before its first sample" in text
    assert "Nothing was recorded." in text


def test_a_run_without_bottleneck_has_a_calm_headline(experiment: Any) -> None:
    calm = {**experiment.summary, "bottleneck": None, "sentence": "No bottleneck: all well."}
    page = Page(report_page(experiment.tables, calm, experiment.scenario))
    assert ("p", {"class": "headline"}) in page.tags


def test_the_file_is_replaced_whole(experiment: Any, tmp_path: Path, markup: str) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    write_report(path, experiment.tables, experiment.summary, experiment.scenario)
    assert path.read_text(encoding="utf-8") == markup
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_import_prints_nothing_and_loads_no_plotting() -> None:
    code = (
        "import sys, flowcontrol.report;"
        "sys.exit(sorted({'plotly', 'matplotlib', 'pyspark', 'numba'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
