"""Settings of a link, read from ``link.json`` and from later changes in its ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from math import ceil
from typing import TYPE_CHECKING, Any, cast

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import LinkLedgerView
from flowcontrol.ledger.log import SEAL, digest
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.schema import columns_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


FILE = "link.json"

FORMAT = 2
"""Version of the folder's layout, tables included; links of other versions are refused."""

MOST_CHANNELS = 1024
SMALLEST_BUFFER, LARGEST_BUFFER = 1024, 1 << 30

MOST_BYTES = 1 << 62
"""Of sizes that nothing else limits."""

LONGEST_S = 366 * 86_400.0
"""Most of a duration in event time, seconds."""

EVENT_TYPES = ("timestamp", "timestamp_ntz", "date", "bigint")
"""Spark's names of the types that ``event_time_column`` may have."""

POOL_BYTES = 256 << 20
"""What the pool of a new link grows to at most, bytes, unless its buffers are stated."""

SETTINGS = "settings/link"
"""The ledger's member whose newest commit holds what was altered."""

DRAINING = "draining/link"
"""The ledger's member whose newest commit says whether the link is being drained, or is."""

MOVING, MOVED, DELETING = "moving_to", "moved_to", "deleting"
"""Key of ``link.json`` while the link is moved, after it has moved, and while it is deleted."""


def _setting(
    default: Any, low: float = 0, high: float = 0, *, is_fixed: bool = False, absent: Any = MISSING
) -> Any:
    """Declare a setting: its default in a new link and its limits, if ``high`` is not 0.

    - ``is_fixed``: whether it cannot change while a link is in use.
    - ``absent``: what it is where ``link.json`` does not say; by default it has to.
    """
    stated = {"default": default, "limits": (low, high), "is_fixed": is_fixed}
    return field(default=absent, metadata=stated)


@dataclass(frozen=True)
class LinkSettings:
    """Settings of a link, each with its default and limits; numbers of buffers are Flink's."""

    link_id: str  # Made with the link
    schema: str  # Spark's JSON of the rows' columns; empty as long as no sender has brought them
    # Columns by which rows are routed; None deals them out evenly.
    key: tuple[str, ...] | None = _setting(None, is_fixed=True)
    channels: int = _setting(8, 1, MOST_CHANNELS)  # Of each sender
    # Each channel's own, and those that a sender's channels, or a receiver's gate, share: where the
    # pool sizes itself, at least.
    exclusive_buffers: int = _setting(2, 1, 1 << 20)
    floating_buffers: int = _setting(8, 0, 1 << 20)
    # Size of a message at most, Arrow's memory.
    buffer_bytes: int = _setting(4 << 20, SMALLEST_BUFFER, LARGEST_BUFFER, is_fixed=True)
    # How long a receiver's micro-batch should take; None: as long as its credit makes it.
    target_batch_s: float | None = _setting(None, 0.05, 3600.0)
    # A receiver that lags further behind the fastest is cut off; None: it blocks the sender.
    detach_after_bytes: int | None = _setting(None, 1, MOST_BYTES)
    # What may wait outside the buffers, on disk, when a sender's batch ends.
    spill_bytes: int = _setting(0, 0, MOST_BYTES)
    # What a pool that sizes itself may hold, messages of full size; None: it does not.
    max_pool_bytes: int | None = _setting(POOL_BYTES, SMALLEST_BUFFER, MOST_BYTES, absent=None)
    # Column with the event time of a row; None: the link has no watermarks.
    event_time_column: str | None = _setting(None, absent=None)
    # How far a watermark is behind the latest event time.
    watermark_delay_s: float = _setting(0.0, 0.0, LONGEST_S, absent=0.0)
    # Time without rows after which a channel holds nobody back.
    idle_after_s: float = _setting(60.0, 0.1, LONGEST_S, absent=60.0)
    # How far a sender may be ahead of the slowest in event time; None: as far as it likes.
    align_s: float | None = _setting(None, 0.0, LONGEST_S, absent=None)

    @property
    def pool_size(self) -> int:
        """Buffers of a sender's output pool, and of a receiver's gate for one sender, at least."""
        return self.channels * self.exclusive_buffers + self.floating_buffers

    @property
    def most_floating(self) -> int:
        """Floating buffers that the pool may grow to."""
        if self.max_pool_bytes is None:
            return self.floating_buffers
        own = self.channels * self.exclusive_buffers
        return max(self.floating_buffers, self.max_pool_bytes // self.buffer_bytes - own)

    def bounded(self, floating: int) -> int:
        """Return a number of floating buffers within the pool's bounds."""
        return max(self.floating_buffers, min(self.most_floating, floating))

    def floating_for(self, nbytes: float) -> int:
        """Return the floating buffers of a pool that holds so many bytes."""
        return ceil(nbytes / self.buffer_bytes) - self.channels * self.exclusive_buffers

    def to_json(self) -> str:
        """Return the text of ``link.json``."""
        own = asdict(self)
        if self.event_time_column is None:  # so that versions without event time read it
            own = {name: value for name, value in own.items() if name not in EVENT_SETTINGS}
        content = {"format": FORMAT, **own}
        return json.dumps({**content, SEAL: _seal(content)}, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, place: str) -> LinkSettings:
        """Read ``link.json``.

        Raises LinkError if it is not what a link writes.
        """
        check_stays(text, place)
        try:
            found = json.loads(text)
            if (found_format := found.pop("format")) != FORMAT:
                raise ValueError(
                    f"it has the format {found_format}, this version reads {FORMAT} only: let "
                    "receivers read the link to its end with the version that made it, then begin "
                    "a new one in another folder"
                )
            seal = found.pop(SEAL)
            if seal != _seal({"format": FORMAT, **found}):
                raise ValueError(
                    "its digest is another: it was damaged, or edited by hand. Put it back from a "
                    "copy; link.alter(...) changes what can change"
                )
            key = found.pop("key")
            return cls(key=None if key is None else tuple(key), **found)
        except (ValueError, KeyError, TypeError) as error:
            raise LinkError(f"{place}/{FILE} is not a link's: {error}") from error


_STATED = {one.name: one.metadata for one in fields(LinkSettings) if one.metadata}

DEFAULTS: dict[str, Any] = {name: one["default"] for name, one in _STATED.items()}
"""Defaults of a new link."""

ALTERABLE = tuple(sorted(name for name, one in _STATED.items() if not one["is_fixed"]))
"""What can change while a link is in use."""

_LIMITS = {name: one["limits"] for name, one in _STATED.items() if one["limits"][1]}

LIMITS = {name: limits for name, limits in _LIMITS.items() if not name.endswith("_s")}
"""Least and most of the settings that are whole numbers."""

TARGET_LIMITS_S = _LIMITS["target_batch_s"]
"""Least and most of ``target_batch_s``."""

EVENT_LIMITS_S = {name: _LIMITS[name] for name in ("watermark_delay_s", "idle_after_s", "align_s")}
"""Least and most of the durations that go with ``event_time_column``, seconds."""

EVENT_SETTINGS = ("event_time_column", *EVENT_LIMITS_S)
"""What a link with event time has."""


def _seal(content: Mapping[str, Any]) -> int:
    """Return the digest of the content of ``link.json``."""
    return digest(json.dumps(content).encode())


def check(place: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check the settings that a user gives, and normalise them.

    Raises LinkError: naming everything that is wrong.
    """
    wrong: list[str] = []
    found = dict(given)
    for name in ("buffer_bytes", "detach_after_bytes", "max_pool_bytes", "spill_bytes"):
        if found.get(name) is not None:
            try:
                found[name] = _read_bytes(found[name])
            except ValueError as error:
                wrong.append(f"{name}: {error}")
                found.pop(name)
    key = found.get("key")
    if key is not None:
        names = (key,) if isinstance(key, str) else key
        found["key"] = tuple(names) if isinstance(names, Sequence) else (names,)
        if not _are_names(found["key"]):
            wrong.append(f"key is {key!r}: needs the name of a column, or a list of some")
    for name, (low, high) in LIMITS.items():
        value = found.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            wrong.append(f"{name} is {value!r}: needs a whole number from {low} to {high}")
    target = found.get("target_batch_s")
    if target is not None and not is_target(target):
        low_s, high_s = TARGET_LIMITS_S
        wrong.append(f"target_batch_s is {target!r}: needs seconds, from {low_s:g} to {high_s:g}")
    column = found.get("event_time_column")
    if column is not None and not (isinstance(column, str) and column):
        wrong.append(f"event_time_column is {column!r}: needs the name of a column")
    for name, limits_s in EVENT_LIMITS_S.items():
        duration = found.get(name)
        if duration is not None and not is_duration(duration, limits_s):
            least, most = limits_s
            wrong.append(f"{name} is {duration!r}: needs seconds, from {least:g} to {most:.0f}")
    if wrong:
        raise LinkError(f"the link {place} is refused: " + "; ".join(wrong))
    return found


UNSET = "none"
"""Text of a setting that is not set."""


def read_setting(name: str, text: str) -> object:
    """Return a setting as ``Link`` takes it: a number for seconds and counts, a text for a size.

    ``text``: of several columns of a key with commas, or as JSON.
    """
    if text.lower() == UNSET:
        return None
    try:
        if name == "key":
            return json.loads(text) if text.startswith("[") else text.split(",")
        if name.endswith("_s"):
            return float(text)
        if name == "channels" or name.endswith("_buffers"):
            return int(text)
    except ValueError:
        pass
    return text


def check_whole(place: str, settings: LinkSettings) -> None:
    """Refuse settings that do not go together.

    A pool must hold the buffers without which the link cannot work, and what goes with event time
    needs a column.

    Raises LinkError with the figures.
    """
    most, least = settings.max_pool_bytes, settings.pool_size * settings.buffer_bytes
    if most is not None and most < least and most != POOL_BYTES:
        raise LinkError(
            f"the link {place} is refused: max_pool_bytes is {most}, but its {settings.pool_size} "
            f"buffers ({settings.channels} channels x {settings.exclusive_buffers} exclusive + "
            f"{settings.floating_buffers} floating) of {settings.buffer_bytes} bytes are {least}: "
            "raise it, or state fewer channels or smaller buffers"
        )
    stated = [
        f"{name} is {getattr(settings, name):g}"
        for name in EVENT_LIMITS_S
        if getattr(settings, name) != DEFAULTS[name]
    ]
    if stated and settings.event_time_column is None:
        raise LinkError(
            f"the link {place} is refused: {', '.join(stated)}, but there is no event_time_column: "
            "name the column with the event time of a row, or leave it out"
        )


def is_target(value: object) -> bool:
    """Whether this is a time that a micro-batch can be asked to take, seconds."""
    return is_duration(value, TARGET_LIMITS_S)


def is_duration(value: object, limits_s: tuple[float, float]) -> bool:
    """Whether this is a number of seconds within limits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return limits_s[0] <= value <= limits_s[1]


def _are_names(names: Sequence[object]) -> bool:
    """Whether these are different names of columns, at least one."""
    are_texts = all(isinstance(name, str) and name for name in names)
    return bool(names) and are_texts and len(set(names)) == len(names)


def _read_bytes(value: object) -> int:
    """Read a size as scenarios have it: ``4mb``, ``4 MiB``, ``4096``."""
    from flowcontrol.scenario.syntax import read_memory  # with pydantic: not on executors

    return read_memory(value)


def notice_of(text: str | bytes) -> tuple[str, Any] | None:
    """Return which of :data:`MOVING`, :data:`MOVED`, :data:`DELETING` stands in a ``link.json``."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    names = (MOVING, MOVED, DELETING) if isinstance(found, dict) else ()
    return next(((name, found[name]) for name in names if name in found), None)


def check_stays(text: str | bytes, place: str) -> None:
    """Refuse a link that was moved away, or that a command is moving or deleting.

    Raises LinkError: saying where it is, or how the command is finished.
    """
    name, value = notice_of(text) or ("", None)
    if name == MOVED:
        raise LinkError(
            f"{place}: this link has moved to {value}: name that folder, with the same checkpoints"
        )
    if name == MOVING:
        raise LinkError(
            f"{place}: this link is being moved to {value}: wait, or finish a move that was "
            f"interrupted with: flowcontrol link move {place} {value}"
        )
    if name == DELETING:
        raise LinkError(
            f"{place}: this link is being deleted: finish a deletion that was interrupted with: "
            f"flowcontrol link delete {place}"
        )


def read_made(storage: Storage) -> LinkSettings | None:
    """Return a link's settings as it was made; None if there is no link.

    Raises LinkError if the path is a file, or ``link.json`` cannot be read.
    """
    try:
        return LinkSettings.from_json(storage.read(FILE), str(storage))
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise LinkError(
            f"{storage}: this is a file, or lies below one: a link is a folder"
        ) from error
    except OSError as error:
        raise LinkError(f"{storage}/{FILE} cannot be read: {error}") from error


def altered(settings: LinkSettings, view: LinkLedgerView) -> LinkSettings:
    """Return a link's settings with the changes in its ledger."""
    latest = view.members.get(SETTINGS)
    schema = columns_of(settings.schema, view).schema
    return replace(settings, **({} if latest is None else latest.state), schema=schema)


def no_link(place: object) -> LinkError:
    """Return what is raised where a folder should hold a link and does not."""
    return LinkError(
        f"{place}: there is no link here (no file link.json): name the folder that was given to "
        "Link(...)"
    )


def read_settings(storage: Storage) -> LinkSettings | None:
    """Return a link's settings as they are now; None if there is no link."""
    made = read_made(storage)
    ledger = storage.child("ledger")
    if made is None or not ledger.exists("_delta_log"):
        return made
    view = LinkLedgerView(ledger)
    if not view.is_there():  # another query is making it at this moment
        return made
    view.refresh()
    return altered(made, view)


def schema_json(schema: StructType | pa.Schema | str | None) -> str:
    """Return Spark's JSON of a schema, every column nullable: files do not keep the mark.

    Raises LinkError if it is a text that Spark cannot read.
    """
    if schema is None or schema == "":
        return ""
    from pyspark.sql.types import StructField, StructType

    if isinstance(schema, str):
        spark = _read_ddl(schema)
    elif isinstance(schema, StructType):
        spark = schema
    else:
        from pyspark.sql.pandas.types import from_arrow_schema

        spark = from_arrow_schema(schema)
    return StructType([StructField(f.name, f.dataType, True) for f in spark.fields]).json()


def _read_ddl(text: str) -> StructType:
    """Read columns as SQL writes them; Spark's parser does, so it takes a session."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        return cast("StructType", StructType.fromDDL(text))
    except PySparkException as error:
        raise LinkError(
            f"the schema {text!r} cannot be read: {error}. Start the Spark session first, or give "
            "a StructType or a pyarrow.Schema"
        ) from error


def schema_of(text: str) -> StructType:
    """Return the schema whose JSON this is."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(text))


# --- Whether a link is still where its members think it is: it may be moved or deleted meanwhile.


EVERY_S = 5.0
"""How often a member that waits looks at ``link.json``. One that commits is fenced at once."""


class Presence:
    """Asks now and then."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._asked = time.monotonic()

    def check(self, *, at_once: bool = False) -> None:
        """Refuse a link that was moved or deleted since it was opened.

        ``at_once``: look now: a member does so behind its claim, which a move that fences all
        members before has not seen.

        Raises LinkError: saying what has become of it.
        """
        now = time.monotonic()
        if not at_once and now - self._asked < EVERY_S:
            return
        self._asked = now
        if read_made(self._storage) is None:
            raise LinkError(f"{self._storage}: the link was deleted while this query ran")
