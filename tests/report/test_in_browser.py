"""The page in a browser: the table opens, the slider moves the graph, the maps change.

Skipped where there is no Chromium; what the page is made of is tested without one. A page takes a
second or more to load, so the tests of one share it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.topics.shown import report_page
from modules import load

browsing = load("tests/report/browser.py")
PROGRAM = browsing.program()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium: apt-get install chromium")

STATUS = "document.querySelector('[data-slot=\"s0.status\"]').textContent"
BAND = "document.querySelector('[data-slot=\"s0.fill\"]').getAttribute('fill')"
TIME = "document.querySelector('#player output').value"
PLAY = "document.querySelector('#player .play')"
SLIDER = "document.querySelector('#player input')"
DRAWN = """Object.fromEntries(Array.from(document.querySelectorAll('[data-slot]'), (place) => [
    place.dataset.slot,
    place.dataset.sets ? place.getAttribute(place.dataset.sets) : place.textContent,
]))"""
MAP = """[...new Set(document.getElementById('subtasks').data
    .filter((trace) => trace.visible).map((trace) => trace.meta))]"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browsing.Browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(fan: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a job with two subtasks a stage."""
    path: Path = tmp_path_factory.mktemp("fan") / "report.html"
    path.write_text(report_page(fan.tables, fan.summary, fan.scenario), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(browser: Any, page: Path) -> Any:
    """Return the browser with that page in a large window."""
    browser.show(1280)
    browser.open(page)
    return browser


@pytest.fixture
def shown(opened: Any) -> Any:
    """Return the browser with the graph at the whole run."""
    opened.evaluate("document.querySelector('#player .whole').click()")
    return opened


def slide(browser: Any, at: int) -> None:
    browser.evaluate(f"{SLIDER}.value = {at}; {SLIDER}.dispatchEvent(new Event('input'))")


def test_the_page_draws_every_chart_without_an_error(opened: Any) -> None:
    drawn, asked = opened.evaluate(
        "[document.querySelectorAll('.js-plotly-plot').length,"
        " document.querySelectorAll('.chart:not(.empty)').length]"
    )
    assert drawn == asked == 7
    assert opened.errors == []


def test_the_slider_is_moved_with_the_keyboard(shown: Any) -> None:
    whole = shown.evaluate(DRAWN)
    assert shown.evaluate(TIME) == "whole run"
    shown.evaluate(f"{SLIDER}.focus()")
    shown.press("ArrowRight")
    assert shown.evaluate(TIME) == "5 s"
    assert shown.evaluate(DRAWN) != whole
    shown.press("End")
    assert shown.evaluate(TIME) == "100 s"
    shown.press("ArrowLeft")
    assert shown.evaluate(f"{SLIDER}.getAttribute('aria-valuetext')") == "95 s"
    shown.press("Home")
    assert (shown.evaluate(TIME), shown.evaluate(DRAWN)) == ("whole run", whole)


def test_every_place_of_the_graph_is_that_of_the_sample(shown: Any) -> None:
    data = json.loads(shown.evaluate("document.getElementById('timeline').textContent"))
    for at in (1, 7, 20):
        slide(shown, at)
        assert shown.evaluate(TIME) == data["times"][at - 1]
        assert shown.evaluate(DRAWN) == {
            name: values[at - 1] for name, values in data["slots"].items()
        }


def test_the_command_that_steps_is_of_the_time_on_the_slider(shown: Any, fan: Any) -> None:
    command = "document.querySelector('[data-slot=\"step.command\"]').textContent"
    name = fan.scenario.name
    assert shown.evaluate(command) == f"flowcontrol step {name}.yaml --from 4.5 --to 5"
    slide(shown, 20)
    assert shown.evaluate(command) == f"flowcontrol step {name}.yaml --from 99.5 --to 100"


def test_its_button_copies_the_command_or_selects_it(shown: Any) -> None:
    """A browser may refuse the clipboard; then the command is selected all the same."""
    slide(shown, 20)
    pressed = shown.evaluate(
        "new Promise((done) => { const copy = document.querySelector('button.copy');"
        " const before = copy.textContent; copy.click(); const look = setInterval(() => {"
        " if (copy.textContent !== before) {"
        " clearInterval(look); done([before, getSelection().toString(), copy.textContent]); }"
        " }, 20); })"
    )
    assert pressed[0] == "Copy the command"
    assert pressed[1].startswith("flowcontrol step ")
    assert pressed[1].endswith(" --from 99.5 --to 100")
    assert pressed[2].startswith(("Copied", "Selected"))


def test_play_ends_at_the_last_sample_and_whole_run_goes_back(shown: Any) -> None:
    slide(shown, 18)
    shown.evaluate(f"{PLAY}.click()")
    assert "Stop" in shown.evaluate(f"{PLAY}.textContent")
    ended = shown.evaluate(
        "new Promise((done) => { const look = setInterval(() => {"
        f" if ({PLAY}.textContent.includes('Play')) {{"
        f" clearInterval(look); done({TIME}); }} }}, 20); }})"
    )
    assert ended == "100 s"
    shown.evaluate("document.querySelector('#player .whole').click()")
    assert shown.evaluate(TIME) == "whole run"


def test_a_stage_opens_to_its_subtasks_with_the_keyboard(opened: Any) -> None:
    rows = "document.getElementById('rows-of-stage-0').getClientRects().length"
    expanded = "document.querySelector('button.opener').getAttribute('aria-expanded')"
    assert (opened.evaluate(rows), opened.evaluate(expanded)) == (0, "false")
    opened.evaluate("document.querySelector('button.opener').focus()")
    opened.press("Enter")
    assert (opened.evaluate(rows), opened.evaluate(expanded)) == (1, "true")
    opened.press(" ")
    assert (opened.evaluate(rows), opened.evaluate(expanded)) == (0, "false")


def test_the_maps_show_the_figure_that_is_chosen_in_either_theme(opened: Any) -> None:
    assert opened.evaluate(MAP) == ["busy"]
    opened.evaluate("document.querySelector('.switch input:checked').focus()")
    opened.press("ArrowRight")
    assert opened.evaluate(MAP) == ["blocked"]
    opened.evaluate("document.querySelector('.switch [value=queue]').click()")
    assert opened.evaluate(MAP) == ["queue"]
    opened.show(1280, is_dark=True)
    assert opened.evaluate(MAP) == ["queue"]
    opened.show(1280)


def test_a_sample_has_its_pressure_and_colour(
    browser: Any, experiment: Any, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(
        report_page(experiment.tables, experiment.summary, experiment.scenario), encoding="utf-8"
    )
    browser.open(path)
    slide(browser, 1)
    assert browser.evaluate(f"[{STATUS}, {BAND}]") == ["OK · blocked 0 %", "#009E73"]
    slide(browser, 70)
    assert browser.evaluate(f"[{STATUS}, {BAND}]") == ["HIGH · blocked 70 %", "#D55E00"]
    assert browser.evaluate("document.getElementById('subtasks')") is None


@pytest.mark.parametrize(("width", "way"), [(390, "down"), (420, "down"), (1280, "across")])
def test_the_page_and_its_graph_are_never_wider_than_the_window(
    browser: Any, page: Path, width: int, way: str
) -> None:
    browser.show(width)
    browser.open(page)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    seen = "[...document.querySelectorAll('.graph')].filter((one) => one.getClientRects().length)"
    assert browser.evaluate(f"{seen}.map((one) => one.classList[1])") == [way]
    for edge in browser.evaluate(
        "[...document.querySelectorAll('#job-graph .scroll rect')]"
        ".map((box) => box.getBoundingClientRect().right)"
    ):
        assert edge <= width


def test_without_scripts_the_rows_of_the_subtasks_are_shown(browser: Any, page: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.call("Page.navigate", url=page.as_uri())
        while browser.evaluate("document.readyState") != "complete":
            pass  # a page without scripts keeps no promises, so it cannot be waited for
        assert browser.evaluate("document.getElementById('rows-of-stage-0').clientHeight")
        assert browser.evaluate("document.getElementById('player').hidden")
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("width", [400, 1280])
def test_event_time_is_drawn_within_the_window(
    browser: Any, timed: Any, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "report.html"
    path.write_text(report_page(timed.tables, timed.summary, timed.scenario), encoding="utf-8")
    browser.show(width)
    browser.open(path)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    for name, axes in (("watermark-lag", 1), ("paused", 1), ("windows", 4)):
        chart = f"document.querySelector('#{name}')"
        texts = f"[...{chart}.querySelectorAll('text[class]')]"
        titles = f"{texts}.map((text) => text.getAttribute('class'))"
        drawn = [title for title in browser.evaluate(titles) if re.fullmatch(r"y\d*title", title)]
        assert len(drawn) == axes, name
        right = f"{chart}.querySelector('.main-svg').getBoundingClientRect().right"
        assert browser.evaluate(right) <= width
    assert browser.errors == []
