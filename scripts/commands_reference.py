"""docs/reference/commands.md: every command with its arguments, made from the parsers.

    python scripts/commands_reference.py            print the page
    python scripts/commands_reference.py --write    put it into docs/reference/commands.md

Nothing of it is written by hand but the words here; a description is that of ``--help``.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterator

from scripts.reference import FOLDER, ROOT, serve, table

PAGE = FOLDER / "commands.md"

HEAD = """\
# Commands

<!-- made by scripts/commands_reference.py: change the parsers, then run it with --write -->

`flowcontrol COMMAND --help` prints what is here. A checkout has the command as
`.venv/bin/flowcontrol` after the first `./spark-submit.sh`; `python -m flowcontrol` is the same.

| exit status | means |
| --- | --- |
| 0 | the command succeeded; also a `watch` that Ctrl-C ended |
| 1 | it failed later: a run, a search, a link that disappeared |
| 2 | a scenario, a command line, a folder or a link is refused, each problem with its place; \
nothing was written |
| 130 | Ctrl-C ended it; the same command continues where it was |

A command that takes longer than two seconds says so on standard error; `--quiet` or
`FLOWCONTROL_QUIET=1` silences it. A folder of results is refused while another process runs in it.
After Ctrl-C or a crash, the same command of the same version resumes a run. A closed pipe, as with
`| head`, changes neither the work nor the status.
"""

SUBMITTED = """\
`./spark-submit.sh pipelines/{name}.py` is the same command, started by Spark's launcher. Options of
spark-submit go before the pipeline, and override the script's own settings.
"""

WIDTH = 92
"""Characters of a line of usage."""


def page() -> str:
    """Return the page."""
    from flowcontrol.cli.main import COMMANDS

    parts = [HEAD]
    for command in COMMANDS:
        parser = argparse.ArgumentParser(prog=f"flowcontrol {command.name}", allow_abbrev=False)
        command.add(parser)
        parts.append(f"## {parser.prog}\n")
        parts += described(parser)
        if (ROOT / "pipelines" / f"{command.name}.py").exists():
            parts.append(SUBMITTED.format(name=command.name))
        for name, one in actions(parser).items():
            parts.append(f"### {parser.prog} {name}\n")
            parts += described(one)
    return "\n".join(parts)


def actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers below a command, by name."""
    found = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return {name: parser for one in found for name, parser in one.choices.items()}


def described(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield description, usage, arguments and what stands below them."""
    if parser.description:
        yield f"{marked(parser.description)}\n"
    yield f"```text\n{usage(parser)}\n```\n"
    rows = [
        (f"`{shown(one, ', '.join(one.option_strings))}`", marked(one.help or ""))
        for one in arguments(parser)
    ]
    if rows:
        yield table(("argument", "meaning"), rows)
    if parser.epilog:
        first, is_example, rest = parser.epilog.partition("example: ")
        yield f"Example: `{rest}`\n" if is_example and not first else f"{marked(parser.epilog)}\n"


def marked(text: str) -> str:
    """Return a text of the help with the options that it names as code."""
    return re.sub(r"(?<![`\w-])--[a-z][\w-]*", r"`\g<0>`", text)


def arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return what a command takes: what has to be there first, then the options."""
    left_out = argparse._HelpAction | argparse._SubParsersAction
    found = [one for one in parser._actions if not isinstance(one, left_out)]
    return sorted(found, key=lambda one: bool(one.option_strings))


def usage(parser: argparse.ArgumentParser) -> str:
    """Return how a command is typed, wrapped."""
    words = ["usage:", parser.prog]
    if actions(parser):
        words.append("ACTION ...")
    for one in sorted(arguments(parser), key=lambda one: not one.option_strings):
        text = shown(one, one.option_strings[-1] if one.option_strings else "")
        is_optional = not one.required or one.nargs == "*"
        words.append(f"[{text}]" if is_optional else text)
    # A word with spaces in it stays whole: spaces that are none while the text is wrapped.
    held = " ".join(word.replace(" ", "\0") for word in words)
    lines = textwrap.wrap(held, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def shown(one: argparse.Action, option: str) -> str:
    """Return an argument with what it takes: ``--clock {live,virtual}``."""
    name = one.metavar or one.dest.upper()
    value = f"{{{','.join(map(str, one.choices))}}}" if one.choices else str(name)
    if option and one.nargs == 0:
        return option
    text = f"{option} {value}".strip()
    return f"{text} ..." if one.nargs in {"*", "+"} else text


def main(arguments: list[str]) -> int:
    """Print the page, or write it."""
    return serve(page, PAGE, arguments)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
