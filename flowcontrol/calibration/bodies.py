"""Foreign JSON: read from a file and parsed, with the place of each refusal."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from flowcontrol.calibration.draft import refuse
from flowcontrol.files import write_atomically

MOST_SUBTASKS: Final = 32_768
"""Largest parallelism that Flink has (``KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM``)."""

_GZIP: Final = b"\x1f\x8b"
"""First bytes of a compressed file."""

_LONGEST: Final = 60
"""Characters of a value that a refusal shows."""


def read_text(path: Path, place: str, wanted: str, source: str) -> str:
    """Return the text of a file, compressed or not, with or without a byte order mark.

    Raises ScenarioError if it cannot be read, or is cut.
    """
    if path.is_dir():
        is_link = (path / "link.json").exists()
        what = "the folder of a link, for --link" if is_link else "a folder"
        refuse(place, f"is {what}; name {wanted}", source)
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        if kind := kind_of_bytes(content):
            refuse(place, f"{kind}; needs {wanted}", source)
        return content.decode("utf-8-sig")
    except EOFError:
        refuse("the end", "the file is cut: nothing of it can be read; make it again", source)
    except UnicodeDecodeError as error:
        text = f"is not a text in UTF-8 (byte {error.start}: {error.reason}); write it as UTF-8"
        refuse(place, text, source)
    except (OSError, zlib.error, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        refuse(place, f"cannot be read ({why}); name {wanted}", source)


def read_json(text: str, place: str, otherwise: str, source: str) -> Any:
    """Return what some JSON holds that is syntactically right; ``JSONDecodeError`` if it is not.

    Raises ScenarioError if it is nested too deeply, or has a number with too many digits.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        refuse(place, f"cannot be read ({why}): {otherwise}", source)


def plain(text: str) -> str:
    """Return a text in one line, of printable characters alone: for files, comments, terminals."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def mapping_at(value: Any, place: str, source: str) -> Mapping[str, Any]:
    """Return a value that has to be a mapping.

    Raises ScenarioError if it is none.
    """
    if not isinstance(value, Mapping):
        refuse(place, f"{shown(value)} is not a mapping, as Flink answers there", source)
    return value


def known(value: Any) -> Mapping[str, Any]:
    """Return a mapping; an empty one of anything else, such as the error that Flink answers."""
    return value if isinstance(value, Mapping) else {}


def known_rows(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; none of anything else."""
    return [row for row in value if isinstance(row, Mapping)] if _is_list(value) else []


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def rows_at(value: Any, place: str, source: str) -> list[Mapping[str, Any]]:
    """Return a value that has to be a list of mappings; without one, none.

    Raises ScenarioError if it is something else.
    """
    if value is None:
        return []
    if not _is_list(value):
        refuse(place, f"{shown(value)} is not a list, as Flink answers there", source)
    return [mapping_at(row, f"{place}[{number}]", source) for number, row in enumerate(value)]


def word_at(row: Mapping[str, Any], key: str, place: str, source: str) -> str:
    """Return a text of a mapping that has to be there.

    Raises ScenarioError if it is missing or empty.
    """
    value = row.get(key)
    if not isinstance(value, str | int) or value == "":
        refuse(f"{place}.{key}", f"{shown(value)} is not a text: dump the body as it is", source)
    return str(value)


def width_at(row: Mapping[str, Any], place: str, source: str) -> int:
    """Return the parallelism of a vertex.

    Raises ScenarioError if it is not a whole number from 1 to :data:`MOST_SUBTASKS`.
    """
    value = row.get("parallelism")
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_SUBTASKS:
        text = f"{shown(value)} is not a whole number from 1 to {MOST_SUBTASKS:,}"
        text += ": dump the body as it is"
        refuse(f"{place}.parallelism", text, source)
    return value


def shown(value: Any) -> str:
    """Return a value as a refusal shows it, cut if it is long."""
    text = "nothing" if value is None else plain(json.dumps(value, default=str)[: 2 * _LONGEST])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


# --- The word for a file that is neither a dump of Flink nor the progress of a Spark query.


Test = Callable[[str, Any], object]
"""Whether a text, and the first JSON in it if it begins so, is of a kind."""

_LONGEST_START: Final = 200_000
"""Characters of a text that are looked at."""


def _matches(pattern: str) -> Test:
    found = re.compile(pattern, re.MULTILINE | re.IGNORECASE)
    return lambda text, _: found.search(text)


def _has(*keys: str) -> Test:
    """Return a test for a mapping, or a list of some, that has all of the keys."""

    def test(_: str, value: Any) -> bool:
        first = value[0] if isinstance(value, list) and value else value
        return isinstance(first, dict) and all(key in first for key in keys)

    return test


def _is_table(text: str, _: Any) -> bool:
    lines = text.strip().splitlines()[:3]
    counts = ({line.count(mark) for line in lines} for mark in ",;\t")
    return len(lines) > 1 and any(len(one) == 1 and one != {0} for one in counts)


_KINDS: Final[dict[str, tuple[Test, ...]]] = {
    "is empty": (lambda text, _: not text.strip(),),
    "is a page in HTML, as a login or a proxy answers": (_matches(r"\A\s*<(!doctype|html|head)"),),
    "is XML": (_matches(r"\A\s*<\?xml"),),
    "is text of Prometheus, one moment without the plan of a job": (
        _matches(r"^# (HELP|TYPE) \w+"),
        _matches(r"^\w+\{\w+=\".*\} [-+.\de]+(NaN)?( \d+)?\s*$"),
    ),
    "is an answer of Prometheus or Grafana, without the plan of a job": (
        _has("status", "data"), _has("metric", "values"), _has("metric", "value"),
        _has("target", "datapoints"), _has("results"),
    ),
    "is a dump of Flink, for --flink": (_has("polls"),),
    "is progress of a Spark query, for --spark": (_has("durationMs"), _has("Event", "progress")),
    "is an answer of Kafka Connect": (
        _has("connector", "tasks"), _has("name", "config", "tasks"),
        _matches(r"kafka[._]connect|connect-worker-metrics|connector-task-metrics"),
    ),
    "is the event log of a Databricks pipeline, without times of batches": (
        _has("event_type"), _has("origin", "details"),
    ),
    "is a deployment of Kubernetes or Ververica Platform": (
        _has("apiVersion", "kind"), _has("kind", "metadata"), _matches(r"\A\s*apiVersion: "),
    ),
    "is Spark's event log": (_has("Event"),),
    "is an answer of Spark's REST API": (
        _has("jobId", "stageIds"), _has("stageId"), _has("batchDuration", "numReceivers"),
        _has("batchId", "batchTime"), _has("gauges", "counters"), _has("attempts", "id"),
    ),
    "is one answer of Flink's REST API, of one moment": (
        _has("jid"), _has("jobs"), _has("plan"), _has("subtasks"), _has("taskmanagers"),
        _has("flink-version"), _has("id", "value"), _has("id", "avg"), _has("id", "parallelism"),
        _has("vertices"), _has("counts", "history"),
    ),
    "is a scenario, for `flowcontrol emulate`": (_matches(r"^stages:"), _has("stages", "edges")),
    "is a log": (
        _matches(r"^.{0,60}\b(INFO|WARN|ERROR|DEBUG)\b"), _matches(r"^Query (made|started)"),
    ),
    "is a table in CSV": (_is_table,),
}  # fmt: skip
"""Kinds of text, in the order of trying."""

_MAGIC: Final = {
    b"\x28\xb5\x2f\xfd": "is compressed with zstd: unpack it first (zstd -d)",
    b"LZ4Block": "is compressed with LZ4 by Spark: set spark.eventLog.compression.codec to zstd, "
    "and unpack that (zstd -d)",
    b"\x04\x22\x4d\x18": "is compressed with LZ4: unpack it first (lz4 -d)",
    b"\xff\x06\x00\x00sNaPpY": "is compressed with Snappy: unpack it first",
    b"\x82SNAPPY": "is compressed with Snappy: unpack it first",
    b"BZh": "is compressed with bzip2: unpack it first (bunzip2)",
    b"\xfd7zXZ": "is compressed with xz: unpack it first (unxz)",
    b"PK\x03\x04": "is a ZIP archive: unpack it first",
    b"PAR1": "is a table in Parquet: write its progress as JSON, one a line",
    b"%PDF": "is a PDF",
    b"\x89PNG": "is a picture: give the figures that it shows",
}
"""First bytes of files that are no text."""

_TAR: Final = b"ustar"
_TAR_AT: Final = 257
"""What a tar archive has, and behind how many bytes."""


def kind_of(text: str) -> str:
    """Return the word for what a text is; empty if it is none that is known."""
    value = _first_json(text)
    text = text[:_LONGEST_START]
    kinds = (word for word, tests in _KINDS.items() if any(test(text, value) for test in tests))
    return next(kinds, "")


def kind_of_bytes(content: bytes) -> str:
    """Return the word for what is not a text, and what to do about it; empty if it may be text."""
    if content[_TAR_AT:].startswith(_TAR):
        return "is a tar archive: unpack it first"
    return next((word for magic, word in _MAGIC.items() if content.startswith(magic)), "")


def _first_json(text: str) -> Any:
    text = text.lstrip()
    try:
        return json.JSONDecoder().raw_decode(text)[0] if text[:1] in {"{", "["} else None
    except (ValueError, RecursionError):
        return None


# --- A dump of Flink's REST API: polls, each a mapping of path to body.


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
