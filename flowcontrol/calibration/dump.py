"""A dump of Flink's REST API: polls, each a mapping of path to body."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from flowcontrol.calibration.bodies import kind_of, known, plain, read_json, read_text
from flowcontrol.calibration.draft import refuse
from flowcontrol.files import write_atomically

LEAST_POLLS: Final = 2
"""Rates are differences of counters."""

Poll = Mapping[str, Any]

_JOB: Final = re.compile(r"^/jobs/([0-9a-zA-Z]+)$")
_NOT_JOBS: Final = frozenset({"overview", "metrics"})
_FORM: Final = (
    'a dump is {"polls": [{"/jobs/<id>": body, ...}, ...]}, at least two polls; '
    "`flowcontrol calibrate --flink URL --save FILE` writes one"
)


def read_dump(given: str | Path | Mapping[str, Any] | Sequence[Any]) -> tuple[list[Poll], str]:
    """Read a dump.

    Returns ``polls``: bodies by path, without a leading ``/v1``. Raises ScenarioError if the file
    cannot be read, is cut, or is not a dump of at least two polls.
    """
    source = "the dump"
    if isinstance(given, str | Path):
        source = plain(str(given))
        content = _load(Path(given), source)
    else:
        content = given
    polls = content.get("polls") if isinstance(content, Mapping) else content
    is_list = isinstance(polls, Sequence) and not isinstance(polls, str)
    is_polls = is_list and (content is not polls or any(map(_is_poll, polls)))
    if not is_polls and (kind := kind_of(json.dumps(content, default=str))):
        refuse("the file", f"{kind}, and no dump: {_FORM}", source)
    if not isinstance(polls, Sequence) or isinstance(polls, str):
        refuse("polls", f"there are none: {_FORM}", source)
    for number, poll in enumerate(polls):
        if not isinstance(poll, Mapping):
            refuse(f"polls[{number}]", f"is not a mapping of REST paths to bodies: {_FORM}", source)
    if len(polls) < LEAST_POLLS:
        text = (
            f"{len(polls)} of at least {LEAST_POLLS}: a rate is the difference of a counter "
            "between two polls; poll again some time later, 60 s or more"
        )
        refuse("polls", text, source)
    return [{_plain(path): body for path, body in poll.items()} for poll in polls], source


def check_save(path: str | Path) -> None:
    """Refuse a file that :func:`write_dump` cannot write, before a job is polled for minutes.

    Raises ScenarioError if its folder is not there or must not be written to, or it is a folder
    itself.
    """
    folder = Path(path).parent
    if Path(path).is_dir():
        refuse("--save", f"{path} is a folder; name a file", "command")
    if not folder.is_dir():
        refuse(
            "--save", f"{path}: there is no folder {folder}; make it, or name another", "command"
        )
    if not os.access(folder, os.W_OK):
        refuse("--save", f"{path}: {folder} cannot be written to; name another file", "command")


def write_dump(path: str | Path, polls: Sequence[Poll]) -> None:
    """Write polls as a dump that :func:`read_dump` reads.

    Raises ScenarioError if the file cannot be written.
    """
    try:
        write_atomically(Path(path), json.dumps({"polls": list(polls)}, indent=1) + "\n")
    except OSError as error:
        text = f"{path} cannot be written: {error.strerror or error}; name another file"
        refuse("--save", text, "command")


def job_of(polls: Sequence[Poll], wanted: str | None, source: str) -> str:
    """Return the id of the one job of a dump.

    ``wanted``: the id to choose; None: the only one.

    Raises ScenarioError if there is no job, not the wanted one, or several to choose from.
    """
    found = sorted({job for poll in polls for job in jobs_in(poll)})
    if not found:
        refuse("polls", f"no poll holds a job (/jobs/<id>): {_FORM}", source)
    if wanted is not None:
        if wanted not in found:
            text = f"{wanted}: there is no such job; there are: {', '.join(found)}"
            refuse("--job", text, source)
        return wanted
    if len(found) > 1:
        names = "; ".join(f"{job} ({plain(_name(polls, job))})" for job in found)
        refuse("--job", f"{len(found)} jobs, name one of them: {names}", source)
    return found[0]


def jobs_in(poll: Poll) -> Iterator[str]:
    """Yield the ids of the jobs whose body a poll holds."""
    for path in poll:
        match = _JOB.match(path)
        if match and match.group(1) not in _NOT_JOBS:
            yield match.group(1)


def _is_poll(value: Any) -> bool:
    return isinstance(value, Mapping) and any(str(key).startswith("/") for key in value)


def _name(polls: Sequence[Poll], job: str) -> str:
    bodies = (known(poll.get(f"/jobs/{job}")) for poll in polls)
    names = (body["name"] for body in bodies if "name" in body)
    return str(next(names, "without a name"))


def _plain(path: str) -> str:
    path = unquote(str(path))
    path = path if path.startswith("/") else f"/{path}"
    return path.removeprefix("/v1") if path.startswith("/v1/") else path


def _load(path: Path, source: str) -> Any:
    wanted = "a dump, or the URL of a job manager, as http://localhost:8081"
    text = read_text(path, "--flink", wanted, source)
    try:
        return read_json(text, "--flink", _FORM, source)
    except json.JSONDecodeError as error:
        kind = kind_of(text)
        if text.strip() and kind and not text.lstrip().startswith('{"polls"'):
            refuse("the file", f"{kind}, and no dump: {_FORM}", source)
        is_cut = error.pos >= len(text.rstrip()) - 1
        what = f"no JSON ({error.msg})"
        if is_cut:
            what = "the file is cut" if text.strip() else f"the file is cut, or is empty: {_FORM}"
        refuse(
            f"line {error.lineno}, column {error.colno}",
            f"{what}: nothing behind it can be trusted; make the dump again",
            source,
        )
