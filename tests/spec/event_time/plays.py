"""The objects of event time, driven by the lines of step tables."""

from __future__ import annotations

import re
from typing import Any

from flowcontrol.protocol import event_time as alignment
from flowcontrol.spec import SourceAlignment, SplitWatermarks, WatermarkGenerator, WatermarkValve
from flowcontrol.spec.event_time import PausableClock, on_incoming
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME, AlignedSource

ENDS = {"min": MIN_TIME, "max": MAX_TIME}
NAMES = {value: name for name, value in ENDS.items()}


def number(word: str) -> int:
    return ENDS[word] if word in ENDS else int(word)


def text(answer: Any) -> str:
    """Return how a table writes an answer: nothing for None and an empty list."""
    if answer is None or answer == []:
        return ""
    if isinstance(answer, list):
        return ", ".join(map(text, answer))
    return NAMES.get(answer, str(answer)) if type(answer) is int else str(answer)


class ValvePlay:
    def __init__(self, channels: str) -> None:
        self.looks = self.valve = WatermarkValve(channels=int(channels))

    def step(self, now: int, call: str, *words: str) -> Any:
        what, channel = call[0], int(call[1:])
        if what == "w":
            return self.valve.watermark(channel, number(words[0]))
        return self.valve.status(channel, idle=what == "i")


class GeneratorPlay:
    def __init__(self, bound: str, idle_ms: str = "", punctuated: bool = False) -> None:
        timeout = int(idle_ms) if idle_ms else None
        self.generator = WatermarkGenerator(number(bound), punctuated, idle_ms=timeout)
        self.looks = self.generator

    def step(self, now: int, call: str, *words: str) -> Any:
        if call == "p":
            return self.generator.probe(now)
        if call == "in":  # no call of the object's: it is at the source
            before = self.generator.watermark
            on_incoming(self.generator._state, number(words[0]))
            return self.generator.watermark if self.generator.watermark > before else None
        return self.generator.event(now, number(words[0]))


class PunctuatedPlay(GeneratorPlay):
    def __init__(self, idle_ms: str = "") -> None:
        super().__init__("1000", idle_ms, punctuated=True)


class ClockPlay:
    def __init__(self) -> None:
        self.looks = self.clock = PausableClock()

    def step(self, now: int, call: str) -> Any:
        if call == "time":
            return self.clock.time(now)
        return self.clock.stop(now) if call == "stop" else self.clock.resume(now)


class SplitsPlay:
    def __init__(self) -> None:
        self.looks = self.splits = SplitWatermarks()

    def step(self, now: int, call: str, split: str = "", at: str = "") -> Any:
        if call in "ud":
            return self.splits.update(split, number(at), deferred=call == "d")
        if call == "p":
            return self.splits.probe()
        return getattr(self.splits, "idle" if call == "i" else call)(split)


class GroupPlay:
    def __init__(self, drift: str) -> None:
        self.looks = self.group = SourceAlignment(drift=int(drift))

    def step(self, now: int, call: str, subtask: str, at: str) -> Any:
        ask = self.group.report if call == "r" else self.group.is_paused
        return ask(subtask, number(at))


class TaskPlay:
    """A subtask of a group, which no object stands for."""

    def __init__(self) -> None:
        self.looks = self.source = AlignedSource()
        self.watermark = MIN_TIME

    def step(self, now: int, call: str, at: str = "") -> Any:
        if call in ("report", "idle", "finish"):
            is_idle, is_finished = int(call == "idle"), int(call == "finish")
            return alignment.report_of(self.watermark, is_idle, is_finished)
        if call == "told":
            done = alignment.on_allowed(self.source, self.watermark, number(at))
        else:
            self.watermark = number(at)
            done = alignment.check_watermark(self.source, self.watermark)
        return {0: None, alignment.PAUSE: "pause", alignment.RESUME: "resume"}[done]


PLAYS: dict[str, Any] = {
    "valve": ValvePlay,
    "generator": GeneratorPlay,
    "middle": GeneratorPlay,
    "punctuated": PunctuatedPlay,
    "clock": ClockPlay,
    "splits": SplitsPlay,
    "group": GroupPlay,
    "task": TaskPlay,
}


def play(made: str, steps: str) -> int:
    """Do the steps of a table, one by one; return how many answers were compared."""
    kind, *arguments = made.split()
    player, now, compared = PLAYS[kind](*arguments), 0, 0
    for line in filter(None, map(str.strip, re.split(r"[;\n]", steps))):
        step, *looks = line.split("|")
        asked, arrow, caused = step.partition("->")
        words = asked.split()
        if words[0].startswith("@"):
            now = int(words.pop(0)[1:])
        found = text(player.step(now, *words))
        if caused.strip() == "none or idle":
            assert found in ("", "idle"), line
        else:
            assert found == caused.strip(), line
        compared += bool(arrow)
        for look in looks:
            name, value = look.strip().split(" ", 1)
            assert text(getattr(player.looks, name)) == value, line
    return compared
