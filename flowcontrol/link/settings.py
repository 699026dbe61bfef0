"""What a link is: its settings, read from and written to ``link.json`` beside its tables."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast

from flowcontrol.errors import LinkError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.columns import check_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = [
    "DEFAULTS",
    "LinkSettings",
    "agree",
    "is_target",
    "read_settings",
    "schema_json",
    "schema_of",
]

FILE = "link.json"

FORMAT = 1

MOST_CHANNELS = 1024
SMALLEST_BUFFER, LARGEST_BUFFER = 1024, 1 << 30

DEFAULTS: dict[str, Any] = {
    "key": None,
    "channels": 8,
    "exclusive_buffers": 2,
    "floating_buffers": 8,
    "buffer_bytes": 4 << 20,
    "target_batch_s": None,
    "detach_after_bytes": None,
    "spill_bytes": 0,
}
"""What a link is made with where nothing is said; numbers of buffers are Flink's."""


@dataclass(frozen=True)
class LinkSettings:
    """Settings of a link.

    Attributes
    ----------
    link_id : str
        Made with the link.
    key : tuple of str or None
        Columns by which rows are routed; None deals them out evenly.
    channels : int
        Channels of each sender.
    exclusive_buffers, floating_buffers : int
        Each channel's own, and those that a sender's channels, or a receiver's gate, share.
    buffer_bytes : int
        Size of a message at most, Arrow's memory.
    target_batch_s : float or None
        How long a receiver's micro-batch should take; None: as long as its credit makes it.
    detach_after_bytes : int or None
        A receiver that lags further behind the fastest is cut off; None: it blocks the sender.
    spill_bytes : int
        What may wait outside the buffers, on disk, when a sender's batch ends.
    schema : str
        Spark's JSON of the rows' columns; empty as long as no sender has brought them.
    """

    link_id: str
    key: tuple[str, ...] | None
    channels: int
    exclusive_buffers: int
    floating_buffers: int
    buffer_bytes: int
    target_batch_s: float | None
    detach_after_bytes: int | None
    spill_bytes: int
    schema: str

    @property
    def pool_size(self) -> int:
        """Buffers of a sender's output pool, and of a receiver's gate for one sender."""
        return self.channels * self.exclusive_buffers + self.floating_buffers

    def to_json(self) -> str:
        """Return the text of ``link.json``."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, place: str) -> LinkSettings:
        """Read ``link.json``.

        Raises
        ------
        LinkError
            If it is not what a link writes.
        """
        try:
            found = json.loads(text)
            if found.pop("format") != FORMAT:
                raise ValueError("of another format")
            key = found.pop("key")
            return cls(key=None if key is None else tuple(key), **found)
        except (ValueError, KeyError, TypeError) as error:
            raise LinkError(f"{place}/{FILE} is not a link's: {error}") from error


def check(place: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check what a user says of a link, and bring it into one form.

    Raises
    ------
    LinkError
        Naming everything that is wrong.
    """
    wrong: list[str] = []
    found = dict(given)
    for name in ("buffer_bytes", "detach_after_bytes", "spill_bytes"):
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
    limits = {
        "channels": (1, MOST_CHANNELS),
        "exclusive_buffers": (1, 1 << 20),
        "floating_buffers": (0, 1 << 20),
        "buffer_bytes": (SMALLEST_BUFFER, LARGEST_BUFFER),
        "detach_after_bytes": (1, 1 << 62),
        "spill_bytes": (0, 1 << 62),
    }
    for name, (low, high) in limits.items():
        value = found.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            wrong.append(f"{name} is {value!r}: needs a whole number from {low} to {high}")
    target = found.get("target_batch_s")
    if target is not None and not is_target(target):
        wrong.append(f"target_batch_s is {target!r}: needs seconds, from 0.05 to 3600")
    if wrong:
        raise LinkError(f"the link {place} is refused: " + "; ".join(wrong))
    return found


def is_target(value: object) -> bool:
    """Whether this is a time that a micro-batch can be asked to take, seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.05 <= value <= 3600


def _are_names(names: Sequence[object]) -> bool:
    """Whether these are different names of columns, at least one."""
    are_texts = all(isinstance(name, str) and name for name in names)
    return bool(names) and are_texts and len(set(names)) == len(names)


def _read_bytes(value: object) -> int:
    """Read a size as Flink writes it, ``4mb``, or with the binary prefixes, ``4 MiB``."""
    from flowcontrol.scenario.units import read_memory  # with pydantic: not on executors

    if isinstance(value, str):
        value = re.sub(r"(?i)([kmgt])ib$", r"\1b", value.strip())
    return read_memory(value)


def read_settings(storage: Storage) -> LinkSettings | None:
    """Return a link's settings; None if there is no link."""
    try:
        return LinkSettings.from_json(storage.read(FILE), str(storage))
    except FileNotFoundError:
        return None


def agree(
    storage: Storage, given: Mapping[str, Any], schema: str, *, evolve: bool = False
) -> LinkSettings:
    """Make a link, or make sure that the one that stands there is the one that is meant.

    Parameters
    ----------
    storage : Storage
        The link's folder.
    given : mapping of str to object
        What the user has said; None for what is left to the link.
    schema : str
        Spark's JSON of the rows' columns; empty if not said.
    evolve : bool, default False
        Let the link take the columns that it does not have yet.

    Returns
    -------
    LinkSettings
        As they stand in the folder.

    Raises
    ------
    LinkError
        If the link is another one, or its rows have other columns.
    """
    said = {name: value for name, value in check(str(storage), given).items() if value is not None}
    for _ in range(10):
        found = read_settings(storage)
        if schema:
            key = said.get("key") if found is None else found.key
            check_columns(str(storage), schema_of(schema), key)
        if found is None:
            made = LinkSettings(uuid.uuid4().hex[:12], **{**DEFAULTS, **said}, schema=schema)
            storage.create(FILE, made.to_json().encode())
            continue  # whoever made it, on an object store the last one: what stands there counts
        _check_same(storage, found, said)
        if not schema or schema == found.schema:
            return found
        if found.schema and not evolve:
            raise LinkError(_other_schema(storage, found.schema, schema))
        changed = replace(found, schema=_evolved(storage, found.schema, schema))
        storage.replace(FILE, changed.to_json().encode())
        return changed
    raise LinkError(f"{storage}: its settings are being written by others again and again")


def _check_same(storage: Storage, found: LinkSettings, said: Mapping[str, Any]) -> None:
    names = [field.name for field in fields(found) if field.name in said]
    other = [
        f"{name} is {getattr(found, name)!r} there, {said[name]!r} here"
        for name in names
        if getattr(found, name) != said[name]
    ]
    if other:
        raise LinkError(
            f"the link {storage} has other settings: {'; '.join(other)}. Leave them out to take "
            "the link's, or name another folder"
        )


def _columns(text: str) -> dict[str, str]:
    return {
        field["name"]: json.dumps(field["type"], sort_keys=True)
        for field in json.loads(text)["fields"]
    }


def _other_schema(storage: Storage, there: str, here: str) -> str:
    shown = [
        ", ".join(f"{name} {kind.strip(chr(34))}" for name, kind in _columns(text).items())
        for text in (there, here)
    ]
    return (
        f"the link {storage} carries other columns: ({shown[0]}) there, ({shown[1]}) here. Use a "
        "new link, or let this one take more columns with Link(..., evolve_schema=True)"
    )


def _evolved(storage: Storage, there: str, here: str) -> str:
    """Return the new schema if it only adds columns."""
    if not there:
        return here
    old, new = _columns(there), _columns(here)
    if any(new.get(name) != kind for name, kind in old.items()):
        raise LinkError(
            _other_schema(storage, there, here) + "; a column cannot be dropped or change its type"
        )
    return here


def schema_json(schema: StructType | pa.Schema | str | None) -> str:
    """Return Spark's JSON of a schema, every column nullable: files do not keep the mark.

    Raises
    ------
    LinkError
        If it is a text that Spark cannot read.
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
