"""Lists of records that a writer holds: in its buffer, in its requests, in hand.

An entry is a run of records, so that many records which were emitted together cost as much as one.
"""

from flowcontrol.state.requests import NONE, EntryList, Requests


def new_entry(requests: Requests, first: int, count: int, size: int, emitted: int) -> int:
    """Return the place of an entry of so many records, the first of which has a number."""
    writer = requests.writer
    place = writer.free
    if place == NONE:
        writer.used += 1
        place = writer.used
    else:
        writer.free = requests.entries[place - 1].next
    entry = requests.entries[place - 1]
    entry.next = NONE
    entry.first = first
    entry.count = count
    entry.size = size
    entry.emitted = emitted
    entry.fails = 0
    entry.tries = 0
    return place


def free_entry(requests: Requests, place: int) -> None:
    """Give an entry back."""
    requests.entries[place - 1].next = requests.writer.free
    requests.writer.free = place


def split_entry(requests: Requests, place: int, count: int) -> int:
    """Leave the first ``count`` records in an entry; return the place of one with the others.

    The other one follows it in its list; whoever holds the list sees to its tail.
    """
    entry = requests.entries[place - 1]
    rest = new_entry(requests, entry.first + count, entry.count - count, entry.size, entry.emitted)
    other = requests.entries[rest - 1]
    other.fails = entry.fails
    other.tries = entry.tries
    other.next = entry.next
    entry.count = count
    entry.next = rest
    return rest


def put_last(requests: Requests, entries: EntryList, place: int) -> None:
    """Put an entry behind the last one; into it, if its records follow those."""
    entry = requests.entries[place - 1]
    entries.records += entry.count
    entries.nbytes += entry.count * entry.size
    entry.next = NONE
    if entries.tail == NONE:
        entries.head = place
        entries.tail = place
        return
    last = requests.entries[entries.tail - 1]
    is_like = last.emitted == entry.emitted and last.size == entry.size
    is_like = is_like and last.first + last.count == entry.first
    if is_like and last.fails == entry.fails and last.tries == entry.tries:
        last.count += entry.count
        free_entry(requests, place)
        return
    last.next = place
    entries.tail = place


def put_first(requests: Requests, entries: EntryList, others: EntryList) -> None:
    """Put all entries of another list, which is not empty, in front of the first one."""
    requests.entries[others.tail - 1].next = entries.head
    if entries.tail == NONE:
        entries.tail = others.tail
    entries.head = others.head
    entries.records += others.records
    entries.nbytes += others.nbytes
    forget(others)


def take_first(requests: Requests, entries: EntryList) -> int:
    """Take the first entry, and return its place."""
    place = entries.head
    entry = requests.entries[place - 1]
    entries.head = entry.next
    if entries.head == NONE:
        entries.tail = NONE
    entries.records -= entry.count
    entries.nbytes -= entry.count * entry.size
    entry.next = NONE
    return place


def take_first_of(requests: Requests, entries: EntryList, most: int) -> int:
    """Take at most so many records of the first entry, and return their place."""
    place = entries.head
    entry = requests.entries[place - 1]
    if entry.count > most:
        rest = split_entry(requests, place, most)
        if entries.tail == place:
            entries.tail = rest
    return take_first(requests, entries)


def take_records(
    requests: Requests, entries: EntryList, taken: EntryList, most: int, nbytes: int
) -> int:
    """Move records from the head of a list to the end of another one; return how many.

    ``most``, ``nbytes``: as many records at the most, and as many bytes.
    """
    moved = 0
    while entries.head != NONE and moved < most:
        entry = requests.entries[entries.head - 1]
        count = min(entry.count, most - moved, nbytes // entry.size)
        if count == 0:
            break
        nbytes -= count * entry.size
        moved += count
        put_last(requests, taken, take_first_of(requests, entries, count))
    return moved


def failing(requests: Requests, entries: EntryList) -> int:
    """Return how many records of a list the answer will say have failed."""
    place, count = entries.head, 0
    while place != NONE:
        entry = requests.entries[place - 1]
        count += entry.count if entry.fails > 0 else 0
        place = entry.next
    return count


def forget(entries: EntryList) -> None:
    """Make a list empty whose entries are elsewhere now."""
    entries.head = NONE
    entries.tail = NONE
    entries.records = 0
    entries.nbytes = 0
