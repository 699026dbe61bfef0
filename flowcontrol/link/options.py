"""The options of a receiver, read and checked before its query starts."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from flowcontrol.errors import LinkError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.members import check_name
from flowcontrol.link.settings import TARGET_LIMITS_S, LinkSettings, is_target, read_settings

SCHEMA_WAIT_S = 60.0
"""How long a receiver of a link that holds nothing yet waits for its columns."""

LOOK_EVERY_S = 0.05
"""Time between two checks for them, seconds."""


@dataclass(frozen=True)
class ReceiverOptions:
    """Options of a receiver."""

    storage: Storage  # The link's folder
    name: str  # The receiver's
    channels: tuple[int, ...] | None  # Those that it reads; None: all
    target_s: float | None  # How long a micro-batch should take; None: what the link says
    partitions: int | None  # Most tasks of a batch; None: a task a channel
    reset: bool  # Whether a new checkpoint may go on where the ledger says that the receiver is
    from_start: bool  # Whether a new receiver must begin at the first row
    wait_s: float  # How long to wait for a link without columns
    ignores_new_columns: bool  # Whether rows with columns that came later are read without them

    def settings(self) -> LinkSettings:
        """Return the link's settings, waiting for a link that no sender has begun.

        Raises LinkError if there is none within the stated time, or it has not the channels asked
        for.
        """
        until = time.monotonic() + self.wait_s
        while True:
            found = read_settings(self.storage)
            if found is not None and found.schema:
                self._check_channels(found)
                return found
            if time.monotonic() > until:
                missing = "there is no link" if found is None else "the link has no columns yet"
                raise LinkError(
                    f"{self.storage}: {missing}, after waiting for {self.wait_s:g} s. Start its "
                    "sender first, give Link(..., schema=...) here, or wait longer with "
                    ".option('wait_s', ...)"
                )
            time.sleep(LOOK_EVERY_S)

    def _check_channels(self, settings: LinkSettings) -> None:
        other = [channel for channel in self.channels or () if channel >= settings.channels]
        if other:
            raise LinkError(
                f"{self.storage}: channels is {_shown(self.channels or ())}: the link has the "
                f"channels 0 to {settings.channels - 1}"
            )


def read_options(options: Mapping[str, str]) -> ReceiverOptions:
    """Read the options of a receiver, names in any case.

    Raises LinkError: naming everything that is wrong.
    """
    given = {key.lower(): value for key, value in options.items()}
    if not given.get("path"):
        raise LinkError("a link's path is missing: .option('path', ...) or .load(path)")
    wrong: list[str] = []
    channels = _channels(given.get("channels"), wrong)
    target = number("target_batch_s", given.get("target_batch_s"), wrong)
    if target is not None and not is_target(target):
        low_s, high_s = TARGET_LIMITS_S
        wrong.append(f"target_batch_s is {target:g}: needs seconds, from {low_s:g} to {high_s:g}")
    wait = number("wait_s", given.get("wait_s", str(SCHEMA_WAIT_S)), wrong)
    if wait is not None and not 0 <= wait < float("inf"):
        wrong.append(f"wait_s is {wait:g}: needs seconds, at least 0")
    partitions = number("partitions", given.get("partitions"), wrong)
    if partitions is not None and not (partitions >= 1 and partitions == int(partitions)):
        wrong.append(f"partitions is {partitions:g}: needs a whole number, at least 1")
    reset, from_start = (_truth(name, given, wrong) for name in ("reset", "from_start"))
    new_columns = given.get("new_columns", "refuse").lower()
    if new_columns not in ("refuse", "ignore"):
        wrong.append(f"new_columns is {given['new_columns']!r}: needs refuse or ignore")
    stored = stored_options(given.get("storage_options", "{}"), wrong)
    name = given.get("name", "main")
    try:
        check_name("receiver", name)
    except LinkError as error:
        wrong.append(str(error))
    if wrong:
        raise LinkError(f"the receiver of {given['path']} is refused: {'; '.join(wrong)}")
    return ReceiverOptions(
        storage=Storage(given["path"], stored),
        name=name,
        channels=channels,
        target_s=target,
        partitions=None if partitions is None else int(partitions),
        reset=reset,
        from_start=from_start,
        wait_s=SCHEMA_WAIT_S if wait is None else wait,
        ignores_new_columns=new_columns == "ignore",
    )


def number(name: str, text: str | None, wrong: list[str]) -> float | None:
    """Return the number of an option, None if it is not given; note what is none."""
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if found != found:
        wrong.append(f"{name} is {text!r}: needs a number")
        return None
    return found


def _truth(name: str, given: Mapping[str, str], wrong: list[str]) -> bool:
    text = given.get(name, "false")
    if text.lower() not in ("true", "false"):
        wrong.append(f"{name} is {text!r}: needs true or false")
    return text.lower() == "true"


def _channels(text: str | None, wrong: list[str]) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        wrong.append(
            f"channels is {text!r}: needs numbers with commas, such as 0,1, or none for all"
        )
        return None
    return tuple(sorted({int(part) for part in parts}))


def stored_options(text: str, wrong: list[str]) -> dict[str, str]:
    """Return the options of a store, from JSON; note what is none."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        wrong.append(f"storage_options is {text!r}: needs JSON, names with texts")
        return {}
    return found


def _shown(channels: tuple[int, ...]) -> str:
    return ",".join(str(channel) for channel in channels)
