"""Rules and events are read off two states: those that acted, and what began."""

from __future__ import annotations

from flowcontrol.stepview import film as film_module
from flowcontrol.stepview import shown
from flowcontrol.stepview.film import KINDS
from modules import load

jobs = load("tests/stepview/jobs.py")


def test_an_event_is_where_something_begins() -> None:
    film = jobs.film_of(jobs.job_of(jobs.FORWARD), 0, 400)
    kinds = {found.kind for _, found in film.events}
    assert kinds == {"credit", "pool", "blocked"}
    at = {state["round"]: state for state in film.states}
    for number, found in film.events:
        before, now = at[number - 1], at[number]
        if found.kind == "credit":
            name = found.name
            assert (before["channels"][name]["credit"] > 0) > now["channels"][name]["credit"]
        if found.kind == "blocked":
            assert before["tasks"][found.name]["blocked_us"] == 0
            assert now["tasks"][found.name]["blocked_us"] > 0


def test_barriers_that_overtake_are_events() -> None:
    film = jobs.film_of(jobs.job_of(jobs.BARRIERS), 0, 700)
    texts = [found.text for _, found in film.events if found.kind == "barrier"]
    assert any("bytes at the sender" in text for text in texts), texts
    assert {found.kind for _, found in film.events} <= set(KINDS)


def test_without_credits_a_connection_stops() -> None:
    film = jobs.film_of(jobs.job_of(jobs.FORWARD, system="flink-1.4"), 0, 299)
    stops = [found.text for _, found in film.events if found.kind == "connection"]
    assert any("not read any more" in text for text in stops)


def test_rules_that_act_are_in_the_table_and_follow_the_counters() -> None:
    film = jobs.film_of(jobs.job_of(jobs.BARRIERS), 0, 700)
    table, met = shown.table("rules.yaml"), set()
    before = film.states[0]
    for state in film.states[1:]:
        for name, channel in state["channels"].items():
            old, rules = before["channels"][name], channel["rules"]
            met |= set(rules)
            if "local" not in rules:
                assert ("send" in rules) == (channel["sent"] > old["sent"])
                assert ("announce" in rules) == (channel["announced"] > old["announced"])
            assert ("recycle" in rules) == (channel["consumed"] > old["consumed"])
        for kind in ("tasks", "gates", "partitions"):
            met |= {rule for own in state[kind].values() for rule in own["rules"]}
        before = state
    assert met <= set(table)
    wanted = {"send", "no_credit", "announce", "recycle", "float", "wait_float", "local", "soft"}
    assert met >= wanted | {"work", "starved", "snapshot", "request", "release", "unavailable"}


def test_every_rule_of_the_table_may_act() -> None:
    """What the page says of a rule that never acts, nobody reads."""
    tables = ("RECORDS", "TCP", "CREDITS", "BARRIERS", "POOL", "TASK")
    own = {rule for name in tables for rule in getattr(film_module, f"_OF_{name}")}
    own |= {"finish", "local", "recycle", "hard", "soft", "work", "starved"}
    assert own == set(shown.table("rules.yaml"))


def test_every_kind_has_a_letter_and_a_look_of_its_own() -> None:
    """Colour is never all that tells two kinds apart."""
    kinds = shown.table("kinds.yaml")
    letters = [row["letter"] for row in kinds.values()]
    assert len(set(letters)) == len(letters)
    assert len({(row["colour"], row["pattern"]) for row in kinds.values()}) >= 15
