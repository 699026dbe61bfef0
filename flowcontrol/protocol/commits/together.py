"""The subtasks of a sink go back to a checkpoint together."""

from collections.abc import Sequence

from flowcontrol.protocol.commits.delivery import Delivery
from flowcontrol.protocol.commits.restored import Returning
from flowcontrol.protocol.commits.transactions import Guarantee


def restore_together(
    now: int, checkpoint: int | None, restored: Sequence[tuple[Delivery, Returning]]
) -> None:
    """Have accounts that share what is settled go on from a checkpoint.

    - ``checkpoint``: the one that is restored; None: from the start, without a checkpoint.
    - ``restored``: the accounts, of one guarantee, and what was and is on the way to each. Subtasks
      that had finished before are not restored: they are not among them.
    """
    undone = [account.abort(now, checkpoint) for account, _ in restored]
    flights = [one.in_flight for _, one in restored]
    early = share_out(
        sum(one.early for _, one in restored),
        [one.early for _, one in restored],
        [one.resumes_at for one in undone],
    )
    starts = [one.resumes_at - count for one, count in zip(undone, early, strict=True)]
    ways = [
        one.position + flight - start
        for one, flight, start in zip(undone, flights, starts, strict=True)
    ]
    since = sum(ways)
    stored = min(since, sum(one.stored for _, one in restored))
    again = since - stored
    if all(one.again is not None for _, one in restored):
        again = min(again, sum(one.again or 0 for _, one in restored))
    # What does not come again counts as the first since the checkpoint.
    skipped = share_out(since - stored - again, ways, ways)
    positions = [start + count for start, count in zip(starts, skipped, strict=True)]
    found = sum(
        max(0, one.expired[1] - max(one.expired[0], position))
        for one, position in zip(undone, positions, strict=True)
    )
    open_rows = [
        one.position - one.shown_to + flight for one, flight in zip(undone, flights, strict=True)
    ]
    settled = restored[0][0].settled
    unseen = lost = settled.unseen(sum(open_rows))
    if restored[0][0].guarantee is not Guarantee.AT_MOST_ONCE:
        rest = since - stored
        # A subtask takes up what a checkpoint holds for it before anything else since then; and
        # what is settled and has not come again yet is of that.
        held = sum(
            max(0, one.stored - (own.shown_to - start))
            for (_, one), own, start in zip(restored, undone, starts, strict=True)
        )
        unseen -= min(unseen, max(0, held - settled.coming, unseen - rest))
        lost = unseen * (rest - again) // max(1, rest)
    settled.go_back(stored + again - found - sum(open_rows), lost)
    losses = share_out(lost, open_rows, open_rows)
    for (account, _), *own in zip(restored, positions, early, losses, strict=True):
        account.go_on(checkpoint, *own)


def share_out(total: int, weights: Sequence[int], rooms: Sequence[int]) -> list[int]:
    """Share a number out by weights, whole, with no more for any than there is room.

    What does not fit where it belongs goes to the first that have room; what fits nowhere is left
    out.

    Examples
    --------
    >>> share_out(7, [3, 1], [9, 9]), share_out(7, [3, 1], [2, 4]), share_out(0, [0, 0], [1, 1])
    ([6, 1], [2, 4], [0, 0])
    """
    whole = max(1, sum(weights))
    found = [
        min(room, total * weight // whole) for weight, room in zip(weights, rooms, strict=True)
    ]
    for index, room in enumerate(rooms):
        found[index] += min(room - found[index], total - sum(found))
    return found
