"""The parser of the command line: what it refuses, it refuses as a scenario is refused."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from flowcontrol.cli.command import refuse


class Parser(argparse.ArgumentParser):
    """argparse's parser, which names the nearest command, option or choice for an unknown one."""

    def __init__(self, *arguments: Any, **given: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **given})

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message; exit with status 2."""
        self.print_usage(sys.stderr)
        sys.exit(refuse(message))

    def parse_known_args(  # type: ignore[override]  # one of argparse's overloads
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what is unknown here: the parser of a command knows its own options."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error("; ".join(self._unknown(rest)))
        return found, rest

    def _unknown(self, words: Sequence[str]) -> Iterator[str]:
        options = [word.partition("=")[0] for word in words if word.startswith("-")]
        for option in options:
            yield f"unknown option {option!r}{_nearest(option, self._option_string_actions)}"
        if not options:  # a word behind an unknown option may be its value
            yield f"{' '.join(words)!r} is one argument too many: leave it out"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            text = f"unknown {str(action.metavar).lower()} {value!r}"
        else:
            text = f"{'/'.join(action.option_strings)}: unknown value {value!r}"
        known = [str(choice) for choice in action.choices]
        self.error(f"{text}{_nearest(str(value), known)} (known: {', '.join(known)})")


def _nearest(word: str, known: Any) -> str:
    from flowcontrol.scenario.problems import nearest

    return nearest(word, known)
