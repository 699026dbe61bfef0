"""Keys of records: which key an id of a stamp stands for, and which id stands for a key.

A key is a number from 0. Of made records, keys that are alike often have ids alike; those of a
distribution a table, ``firsts``: the first id of each key. Of replayed rows a table has the key of
each id. So a key is a function of the record alone, wherever it goes.
"""

from flowcontrol.protocol.event_time.stamps import ID_BITS, IDS
from flowcontrol.protocol.rows import Row


def key_of(number: int, keys: int, firsts: Row) -> int:
    """Return the key of a record.

    Parameters
    ----------
    number : int
        Id of its stamp.
    keys : int
        How many keys there are, 1 to IDS.
    firsts : Row
        First id of each key, not decreasing; empty: all keys are alike. A key that begins where
        the next one does has no record.
    """
    if len(firsts) == 0:
        return (number * keys) >> ID_BITS
    low, high = 0, len(firsts)
    while high - low > 1:
        middle = (low + high) >> 1
        if firsts[middle] <= number:
            low = middle
        else:
            high = middle
    return low


def key_by_table(number: int, keys: int, firsts: Row, numbers: Row) -> int:
    """Return the key of a record, made or replayed.

    Parameters
    ----------
    number : int
        Id of its stamp.
    keys : int
        How many keys there are.
    firsts : Row
        First id of each key, of made records as :func:`key_of` wants it.
    numbers : Row
        Key of each id, of replayed rows; empty: records are made.
    """
    return numbers[number] if len(numbers) > 0 else key_of(number, keys, firsts)


def id_of_key(key: int, keys: int, firsts: Row, numbers: Row) -> int:
    """Return the first id that stands for a key: that of the results of its windows.

    A key that no record of the input has, since only others bring it, has the id that it has where
    keys are alike.
    """
    if len(firsts) == 0 or (len(numbers) == 0 and _has_ids(key, firsts) == 0):
        return (key * IDS + keys - 1) // keys
    return firsts[key]


def _has_ids(key: int, firsts: Row) -> int:
    """Tell whether any id stands for a key of made records: 1 if so."""
    end = IDS if key + 1 == len(firsts) else firsts[key + 1]
    return 1 if firsts[key] < end else 0
