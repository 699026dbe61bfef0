"""Audit a ledger: find the first violation of an invariant.

The audit knows only the invariants of the cursors; it shares no code with the rules that move them.
See :data:`flowcontrol.ledger.audit_rules.INVARIANTS` for all of them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from flowcontrol.errors import LedgerError
from flowcontrol.ledger.audit_link import LinkHistory
from flowcontrol.ledger.audit_rows import is_spilled, is_without_credits
from flowcontrol.ledger.audit_rules import RECEIVER_CLAIMS, SENDER_CLAIMS
from flowcontrol.ledger.exchange import ExchangeView
from flowcontrol.ledger.ledger import read_history
from flowcontrol.records import LEDGER

TRANSITIONS = 3
"""Batches of a channel that a violation shows, the one of the violation included."""


@dataclass(frozen=True)
class Violation:
    """The first invariant that does not hold.

    Attributes
    ----------
    invariant : str
        Its name, a key of :data:`~flowcontrol.ledger.audit_rules.INVARIANTS`.
    batch_id, sender, receiver : int
        Batch and channel; -1 where the row itself does not say. What is claimed of a whole
        gate or partition is named with its first channel.
    message : str
        The claim, what was found and its limit, and the last transitions of the channel.
    edge : str, default ""
        Name of the edge, if a whole run was audited.
    """

    invariant: str
    batch_id: int
    sender: int
    receiver: int
    message: str
    edge: str = ""

    def __str__(self) -> str:
        """Return everything, the place first."""
        edge = f"{self.edge} " if self.edge else ""
        channel = f"{edge}{self.sender}->{self.receiver}"
        return f"{self.invariant}: batch {self.batch_id}, channel {channel}: {self.message}"


def audit(ledger: Path | str | pa.Table, exchange: Path | str | None = None) -> Violation | None:
    """Return the first violation of any invariant in the ledgers of a run.

    Parameters
    ----------
    ledger : Path, str or pyarrow.Table
        The folder of a live run, all of whose links are audited; or the Delta table of one link's
        ledger, or its rows in any order with the columns of :data:`flowcontrol.records.LEDGER`.
    exchange : Path or str, optional
        The link's exchange log; then it is checked as well that every record that was routed
        and not yet processed is in it.

    Returns
    -------
    Violation or None
        The first one by batch, then sender, then receiver; the sender's side before the
        receiver's. None if there is none, as in an empty ledger.

    Raises
    ------
    LedgerError
        If there is no ledger, the table has not its columns, or it is that of a transport without
        credits, or of a partition on disk.

    Notes
    -----
    The invariants are those of Flink's credits. Other transports have none; under most of them,
    such as ``blocking_queue``, a cursor counts records, and there are no buffers to look at.

    A batch with a malformed, missing or doubled row is not looked into: that row is the
    violation. A side may be a batch ahead of the other, as a killed run leaves it.

    Examples
    --------
    >>> from flowcontrol import audit
    >>> found = audit("out/experiment-live")  # doctest: +SKIP
    >>> assert found is None, found  # doctest: +SKIP
    """
    if not isinstance(ledger, pa.Table) and (Path(ledger) / "links").is_dir():
        return audit_run(ledger)
    table = ledger if isinstance(ledger, pa.Table) else read_history(Path(ledger))
    lacking = [name for name in LEDGER.names if name not in table.column_names]
    if lacking:
        raise LedgerError(f"the table is not a ledger: it has no column {', '.join(lacking)}")
    rows = table.to_pylist()
    received = next((row for row in rows if row["side"] == "receiver"), None)
    if received is not None and is_without_credits(received):
        where = "the table" if isinstance(ledger, pa.Table) else str(ledger)
        raise LedgerError(
            f"{where} is the ledger of a transport without credits: audit knows the invariants of "
            "Flink's credits, so give it a run with system.transport: credit"
        )
    sent = next((row for row in rows if row["side"] == "sender"), None)
    if sent is not None and is_spilled(sent):
        where = "the table" if isinstance(ledger, pa.Table) else str(ledger)
        raise LedgerError(
            f"{where} is the ledger of a result partition on disk, whose buffers are not those of "
            "its channels: give it a run with partition_type: pipelined_bounded or pipelined"
        )
    link = LinkHistory(rows)
    end = link.last_batch + 1 if link.fault is None else link.fault.batch_id
    for batch in range(end):
        for channel in link.channels:
            found = _broken(link, batch, channel)
            if found is not None:
                return _violation(link, *found, batch, channel)
    if link.fault is not None:
        fault = link.fault
        channel = (fault.sender, fault.receiver)
        return _violation(link, fault.invariant, fault.text, fault.batch_id, channel)
    return None if exchange is None else _check_exchange(link, Path(exchange))


def audit_run(folder: Path | str) -> Violation | None:
    """Audit every link of a run's folder.

    ``folder``: what ``--out`` named.

    Returns the first violation of the first link, by the links' folders, that has one; ``edge``
    names the link. Raises LedgerError if the folder holds no links.
    """
    links = sorted(Path(folder).glob("links/*/ledger"))
    if not links:
        raise LedgerError(f"{folder} holds no links/*/ledger: not the folder of a live run")
    names = _edge_names(Path(folder) / "run.json")
    for ledger in links:
        exchange = ledger.with_name("exchange")
        found = audit(ledger, exchange if exchange.exists() else None)
        if found is not None:
            return replace(found, edge=names.get(ledger.parent.name, ledger.parent.name))
    return None


def _edge_names(run_file: Path) -> Mapping[str, str]:
    """Names of the edges by their folders, as far as the run says (``a-b`` may be either)."""
    try:
        edges = json.loads(run_file.read_text())["scenario"]["edges"]
        return {f"{e['from']}-{e['to']}": f"{e['from']}->{e['to']}" for e in edges}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _broken(link: LinkHistory, batch: int, channel: tuple[int, int]) -> tuple[str, str] | None:
    """Name and text of the first claim that a batch of a channel breaks."""
    sent = link.sender_step(batch, channel)
    if sent is not None:
        for claim in SENDER_CLAIMS:
            if text := claim.broken(sent):
                return claim.name, text
    received = link.receiver_step(batch, channel)
    if received is not None:
        for claim_made in RECEIVER_CLAIMS:
            if text := claim_made.broken(received):
                return claim_made.name, text
    return None


def _check_exchange(link: LinkHistory, path: Path) -> Violation | None:
    """Check that every record in flight is in the exchange log."""
    view = ExchangeView(path)
    view.refresh()
    for channel in link.channels:
        taken, routed = link.taken_up(channel)
        try:
            spans = view.locate(channel[0], channel[1], taken, routed - taken)
        except LedgerError as error:
            return _violation(link, "exchange", str(error), link.last_batch, channel)
        for span in spans:
            if not Path(span.path).exists():
                text = f"{span.path} is named in the log, but is not there"
                return _violation(link, "exchange", text, link.last_batch, channel)
    return None


def _violation(
    link: LinkHistory, invariant: str, text: str, batch: int, channel: tuple[int, int]
) -> Violation:
    last = "\n  ".join(link.transitions(batch, channel, TRANSITIONS))
    message = f"{text}\n  {last}" if last else text
    return Violation(invariant, batch, *channel, message)
