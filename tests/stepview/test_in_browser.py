"""The page in a browser: its numbers are the states', keys and buttons do what they say.

Skipped where there is no Chromium. A page takes a second or more to load, so tests share it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from flowcontrol.scenario.system import PRESETS
from flowcontrol.stepview import shown as names
from flowcontrol.stepview.film import Film
from flowcontrol.stepview.step import Moments, moments, step, step_page
from modules import ROOT, load

browsing = load("tests/report/browser.py")
jobs = load("tests/stepview/jobs.py")
PROGRAM = browsing.program()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium: apt-get install chromium")

STEP = "Number(document.getElementById('slider').value)"
EVENT = "document.getElementById('event').textContent"
WIDE = "[document.documentElement.scrollWidth, innerWidth]"
MOVED = (
    "Array.from(document.querySelectorAll('.token:not([hidden])'), (one) => one.style.transform)"
)


SQUEEZED = (
    "Array.from(document.querySelectorAll('.channel .label'))"
    ".filter((one) => one.scrollWidth > one.clientWidth)"
    ".map((one) => one.parentElement.textContent)"
)
"""Channels whose name does not fit beside their figures."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browsing.Browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def written(film: Film, found: Moments, path: Path) -> Path:
    path.write_text(step_page(film.job.scenario.name, [film], found), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def film() -> Film:
    """Return 600 rounds of a job with barriers that overtake, a local and a slow channel."""
    found: Film = jobs.film_of(jobs.job_of(jobs.BARRIERS), 100, 699)
    return found


@pytest.fixture(scope="module")
def page(film: Film, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = moments([film.job], 101 * 5000, 700 * 5000, "barriers")
    return written(film, found, tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="module")
def opened(browser: Any, page: Path) -> Any:
    """Return the browser with that page in a large window."""
    browser.show(1280)
    browser.open(page)
    browser.evaluate("window.flowcontrol.ready.then(() => 1)")
    return browser


@pytest.fixture
def shown(opened: Any) -> Any:
    """Return the browser at the first round."""
    opened.show(1280)
    opened.evaluate("document.activeElement.blur(); window.flowcontrol.go(0)")
    opened.evaluate(
        "document.getElementById('filter').value = '';"
        "document.getElementById('filter').dispatchEvent(new Event('change'))"
    )
    return opened


def expanded(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with the items of its lists by the names of their fields."""
    channels = {
        name: {
            key: [dict(zip(names.LISTS[key], item, strict=True)) for item in value]
            if key in names.LISTS
            else value
            for key, value in channel.items()
        }
        for name, channel in state["channels"].items()
    }
    return {**state, "channels": channels}


def test_state_gives_every_round_as_it_is(opened: Any, film: Film) -> None:
    assert opened.evaluate("window.flowcontrol.rounds") == 600
    for at in (0, 1, 49, 50, 51, 333, 599):
        found = opened.evaluate(f"window.flowcontrol.state({at})")
        assert found["round"] == at
        assert found["systems"]["own"] == expanded(film.states[at]), at
    assert opened.errors == []


def test_what_is_drawn_is_the_state(shown: Any, film: Film) -> None:
    """Credits and the kinds of all buffers at both ends, however one gets to a round."""
    for at in (0, 1, 2, 300, 299, 598, 599, 17):
        shown.evaluate(f"window.flowcontrol.go({at})")
        for name, channel in film.states[at]["channels"].items():
            drawn = shown.evaluate(
                f"""['out', 'in'].map((end) => {{
                    const row = document.querySelector(
                        `[data-channel="{name}"][data-end=${{end}}]`);
                    return [row.dataset.credit ?? null, ...Array.from(
                        row.querySelectorAll('.cell:not([hidden])'), (c) => c.dataset.buffer)];
                }})"""
            )
            out = [cell[0] for cell in reversed(channel["out"])]
            into = ["exclusive_free"] * channel["exclusive_free"]
            into += ["floating_free"] * channel["floating_free"]
            into += [cell[0] for cell in reversed(channel["queue"])]
            into += [channel["reading"][0]] if channel["reading"] else []
            assert drawn == [[str(channel["credit"]), *out[-14:]], [None, *into[-14:]]], (
                step,
                name,
            )
            wire = shown.evaluate(
                f"document.querySelectorAll('.token[data-channel=\"{name}\"]:not([hidden])').length"
            )
            assert bool(wire) == bool(channel["wire"] or channel["told"]), (at, name)


def test_keys_are_those_of_a_player(shown: Any, film: Film) -> None:
    for key, at in (
        ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 599), ("ArrowRight", 599),
        ("Home", 0), ("ArrowLeft", 0),
    ):  # fmt: skip
        shown.press(key)
        assert shown.evaluate(STEP) == at, key
    events = sorted({number - film.first for number, _ in film.events})
    shown.press("n")
    assert shown.evaluate(STEP) == next(at for at in events if at > 0)
    text = next(found.text for number, found in film.events if number - film.first == events[0])
    if events[0] > 0:
        assert text in shown.evaluate(EVENT)
    shown.press("n")
    second = shown.evaluate(STEP)
    shown.press("p")
    assert shown.evaluate(STEP) < second
    shown.press("?")
    assert shown.evaluate("document.getElementById('help').open") is True
    shown.press("ArrowRight")
    assert shown.evaluate(STEP) < second
    shown.press("Escape")
    assert shown.evaluate("document.getElementById('help').open") is False


def test_space_plays_and_pauses(shown: Any) -> None:
    shown.evaluate("document.getElementById('speed').value = '60'")
    shown.press(" ")
    shown.evaluate(
        "new Promise((done) => { const look = setInterval(() => {"
        f" if ({STEP} >= 5) {{ clearInterval(look); done(1); }} }}, 10); }})"
    )
    assert "Pause" in shown.evaluate("document.querySelector('.play').textContent")
    shown.press(" ")
    at = shown.evaluate(STEP)
    assert at >= 5
    assert "Play" in shown.evaluate("document.querySelector('.play').textContent")
    shown.evaluate("new Promise((done) => setTimeout(done, 120))")
    assert shown.evaluate(STEP) == at
    shown.press("+")
    assert shown.evaluate("document.getElementById('speed').value") == "200"
    shown.press("-")
    assert shown.evaluate("document.getElementById('speed').value") == "60"


def test_buttons_do_what_they_say(shown: Any, film: Film) -> None:
    def click(name: str) -> int:
        return int(shown.evaluate(f"document.querySelector('[data-do={name}]').click(); {STEP}"))

    assert [click("forward"), click("forward"), click("back")] == [1, 2, 1]
    assert [click("last"), click("first")] == [599, 0]
    barriers = [n - film.first for n, found in film.events if found.kind == "barrier"]
    shown.evaluate(
        "const f = document.getElementById('filter'); f.value = 'barrier';"
        " f.dispatchEvent(new Event('change'))"
    )
    assert click("event-forward") == barriers[0]
    assert "a barrier overtakes" in shown.evaluate(EVENT)
    assert click("event-back") == barriers[0]
    assert "No event before" in shown.evaluate(EVENT)


def test_messages_move_between_two_rounds(shown: Any, film: Film) -> None:
    at = next(i for i, own in enumerate(film.states) if own["channels"]["A->B:0:1"]["wire"])
    shown.evaluate(f"window.flowcontrol.go({at}); document.getElementById('speed').value = '1'")
    before = shown.evaluate(MOVED)
    shown.evaluate("window.flowcontrol.play(true)")
    shown.evaluate("new Promise((done) => setTimeout(done, 250))")
    shown.evaluate("window.flowcontrol.play(false)")
    assert before
    assert shown.evaluate(MOVED) != before


def test_numbers_and_rules_come_by_keyboard_alone(shown: Any, film: Film) -> None:
    """Tab leads to every task, pool and channel; up and down to each buffer in it."""
    at = next(
        i
        for i, own in enumerate(film.states)
        if "no_credit" in own["channels"]["A->B:0:1"]["rules"]
    )
    shown.evaluate(f"window.flowcontrol.go({at}); document.getElementById('help').focus()")
    reached: dict[str, str] = {}
    shown.evaluate("document.querySelector('[data-do=help]').focus()")
    for _ in range(60):
        shown.press("Tab")
        name = shown.evaluate(
            "(({about, name, end}) => about ? [about, name, end].join(' ') : '')"
            "(document.activeElement.dataset)"
        )
        if name:
            reached[name] = shown.evaluate("document.getElementById('details').textContent")
        if name == "channels A->B:0:1 out":
            break
    text = reached["channels A->B:0:1 out"]
    channel = film.states[at]["channels"]["A->B:0:1"]
    assert "Channel A->B:0:1" in text
    assert f"backlog{channel['backlog']}" in text
    assert "the credit is 0" in text
    assert "Flink's network stack, 2.1 · CreditBasedSequenceNumberingViewReader" in text
    assert any(name.startswith("tasks A[0]") for name in reached)
    assert any(name.startswith("partitions A->B:out:0") for name in reached)
    shown.press("ArrowUp")
    of_cell = shown.evaluate("document.querySelector('.of-cell').textContent")
    assert f"{channel['out'][0][1]} records end in it" in of_cell


def test_pointing_at_a_thing_shows_it(shown: Any) -> None:
    shown.evaluate(
        "document.querySelector('[data-about=gates]').dispatchEvent("
        "new PointerEvent('pointerover', {bubbles: true}))"
    )
    text = shown.evaluate("document.getElementById('details').textContent")
    assert text.startswith("Floating buffers of gate A->B:in:")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("is_dark", [False, True])
def test_nothing_is_wider_than_the_window(shown: Any, width: int, is_dark: bool) -> None:
    shown.show(width, is_dark=is_dark)
    shown.evaluate("window.flowcontrol.go(300)")
    whole, inner = shown.evaluate(WIDE)
    assert whole <= inner == width
    small = shown.evaluate(
        "Math.min(...Array.from(document.querySelectorAll('.channel .label, .figures, button'),"
        " (one) => parseFloat(getComputedStyle(one).fontSize)))"
    )
    assert small >= 11


DEFICIENCIES = (
    "achromatopsia",
    *(
        pytest.param(kind, marks=pytest.mark.long)
        for kind in ("deuteranopia", "protanopia", "tritanopia")
    ),
)


@pytest.mark.parametrize("kind", DEFICIENCIES)
def test_every_kind_is_told_apart_without_colours(shown: Any, kind: str, tmp_path: Path) -> None:
    """As Chromium shows it to who sees no such colours, no two kinds of the legend look alike.

    Without any colour at all is the hardest; the long form sees the others too.
    """
    shown.call("Emulation.setEmulatedVisionDeficiency", type=kind)
    shown.evaluate("document.getElementById('legend').open = true")
    kinds = list(names.table("kinds.yaml"))
    looks = {}
    for name in kinds:
        path = tmp_path / f"{name}.png"
        shown.screenshot(path, f"#legend .cell[data-buffer={name}]")
        looks[name] = path.read_bytes()
    shown.call("Emulation.setEmulatedVisionDeficiency", type="none")
    shown.evaluate("document.getElementById('legend').open = false")
    assert len(set(looks.values())) == len(kinds)
    letters = shown.evaluate(
        "Array.from(document.querySelectorAll('#legend .cell'), (one) => one.textContent)"
    )
    assert letters == [row["letter"] for row in names.table("kinds.yaml").values()]


def test_a_page_of_2000_rounds_with_16_channels_is_small_and_smooth(
    browser: Any, tmp_path: Path
) -> None:
    """Less than 5 MB; the script takes 16 ms of a frame at most, in the median."""
    stages = [
        {**jobs.FORWARD["stages"][0], "parallelism": 4, "placement": [0, 0, 1, 1]},
        {
            **jobs.FORWARD["stages"][1], "parallelism": 4, "placement": [2, 2, 3, 3],
            "service_rate": [1200, 300, 1200, 1200],
        },
    ]  # fmt: skip
    edges = [{"from": "A", "to": "B", "partitioner": "rebalance"}]
    job = jobs.job_of(jobs.FORWARD, 2000, stages=stages, edges=edges, cluster={"task_managers": 4})
    own = jobs.film_of(job, 500, 2499)
    path = written(own, moments([job], 501 * 2000, 2500 * 2000, "wide"), tmp_path / "page.html")
    assert len(own.states) == 2000
    assert len(own.states[0]["channels"]) == 16
    assert path.stat().st_size < 5_000_000
    browser.show(1280)
    browser.open(path)
    browser.evaluate("window.flowcontrol.ready.then(() => 1)")
    browser.evaluate(
        "document.getElementById('speed').value = '60'; window.flowcontrol.play(true);"
        " new Promise((done) => { const look = setInterval(() => {"
        " if (window.flowcontrol.frames.length >= 60) { clearInterval(look); done(1); }"
        " }, 20); })"
    )
    frames = browser.evaluate("window.flowcontrol.frames")
    last = browser.evaluate(f"window.flowcontrol.play(false); {STEP}")
    assert last > 20
    assert median(frames) <= 16, sorted(frames)[-10:]
    found = browser.evaluate("window.flowcontrol.state(1999)")
    assert json.loads(json.dumps(found))["systems"]["own"] == expanded(own.states[-1])


def test_systems_beside_each_other_show_who_starves(browser: Any, tmp_path: Path) -> None:
    """The question of head-of-line.yaml: B[0] starves without credits, and not with them."""
    path = ROOT / "conf" / "head-of-line.yaml"
    found = step(
        path, 3, 3.2, systems=["flink-1.4", "flink"], overrides={"round_ms": 5},
        out=tmp_path / "page.html", quiet=True,
    )  # fmt: skip
    browser.show(1280)
    browser.open(found.page)
    browser.evaluate("window.flowcontrol.ready.then(() => 1)")
    states = [browser.evaluate(f"window.flowcontrol.state({i})") for i in range(41)]
    assert browser.evaluate("window.flowcontrol.rounds") == 41
    assert states[-1]["t_s"] == 3.2
    taken = {
        name: sum(state["systems"][name]["tasks"]["B[0]"]["taken"] for state in states)
        for name in ("flink-1.4", "flink")
    }
    idle = {
        name: sum(state["systems"][name]["tasks"]["B[0]"]["idle_us"] for state in states)
        for name in taken
    }
    assert taken["flink-1.4"] < 60 < 180 < taken["flink"]
    assert idle["flink-1.4"] > 150_000
    wires = states[-1]["systems"]["flink-1.4"]["connections"]
    assert wires["0->1 A->B"]["staged"] > 0
    assert states[-1]["systems"]["flink-1.4"]["channels"]["A->B:0:0"]["queued"] == 0
    tops = browser.evaluate(
        "Array.from(document.querySelectorAll('.panel'), (one) => [one.dataset.system,"
        " one.getBoundingClientRect().top])"
    )
    assert [name for name, _ in tops] == ["flink-1.4", "flink"]
    assert tops[0][1] == tops[1][1]


USUAL = ("flink", "flink-1.4", "storm-1", "jstorm-2.1", "heron", "arroyo", "structured-streaming")
"""Systems whose kernels other tests compile, too."""


@pytest.mark.parametrize(
    "systems", [USUAL, pytest.param(tuple(PRESETS), marks=pytest.mark.long)], ids=len
)
def test_every_system_is_drawn(browser: Any, tmp_path: Path, systems: tuple[str, ...]) -> None:
    path = ROOT / "conf" / "head-of-line.yaml"
    found = step(
        path, 3, 3.05, systems=systems, overrides={"round_ms": 5}, out=tmp_path / "page.html",
        quiet=True,
    )  # fmt: skip
    browser.show(1280)
    browser.errors.clear()
    browser.open(found.page)
    browser.evaluate("window.flowcontrol.ready.then(() => 1)")
    browser.evaluate("window.flowcontrol.go(10)")
    drawn = browser.evaluate(
        "Array.from(document.querySelectorAll('.panel'), (one) => [one.dataset.system,"
        " one.querySelectorAll('[data-channel][data-end]').length,"
        " one.querySelectorAll('.cell:not([hidden]), .token:not([hidden])').length > 0])"
    )
    assert drawn == [[name, 4, True] for name in systems]
    assert browser.evaluate(SQUEEZED) == []
    assert browser.errors == []
    for own in found.films:
        state = browser.evaluate("window.flowcontrol.state(10)")["systems"][own.system]
        assert state == expanded(own.states[10]), own.system
