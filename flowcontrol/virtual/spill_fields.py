"""Columns of what the kernel keeps of result partitions that are not pipelined and bounded.

As in :mod:`flowcontrol.virtual.fields`. A pointer to a buffer is its number + 1; 0 points nowhere.
"""

from __future__ import annotations

# ---- one row a partition, (S_WIDTH,), at P_SPILL
S_NUMBER = 0  # number of the partition
S_DISK = 1  # task that is the disk of its task manager; -1: it never spills
S_GROUP = 2  # where the region of its consumers is
S_LANES = 3  # where its subpartitions are
S_AHEAD = 4  # read buffers of a subpartition
S_WRITE_HEAD = 5  # buffers that wait to be written, linked by E_LINK
S_WRITE_TAIL = 6
S_DONE_HEAD = 7  # buffers that the disk works on or is done with, linked by E_LINK
S_DONE_TAIL = 8
S_ASKED = 9  # 1: it waits for a turn of the disk to write; the column behind: to read
S_WRITING = 11  # buffers that wait to be written or are being written
S_KEPT = 12  # finished buffers that have not been spilled
S_UNREAD = 13  # buffers that must be read from disk before they can be sent
S_FULL = 14  # 1: a region is to be written
S_CHANGED = 15  # 1: something happened since a strategy last decided
S_CLOSED = 16  # 1: its task has finished; 2: and all is written that has to be
S_OFFSET = 17  # place in the file of the next buffer that is written
S_TURN = 18  # subpartition that was read last
S_LOADED = 19  # read buffers in use
S_BYTES_WRITTEN = 20
S_BYTES_READ = 21
S_REGIONS = 22  # regions written by a sort-merge partition
S_PEAK = 23  # most buffers of the pool in use
S_LOADED_PEAK = 24  # most read buffers in use
S_FIRST = 25  # round in which its first message was sent; -1: none
S_DONE_AT = 26  # round in which S_CLOSED became 2; -1: not yet
S_SINCE = 27  # round since which its task has waited for it; -1: it does not
S_WAITED = 28  # rounds in which it did before
S_LOCAL = 29  # messages that a local consumer is handed ahead
S_WIDTH = 30

# ---- one row a subpartition, (subpartitions, X_WIDTH), at S_LANES
X_HEAD = 0  # oldest buffer that is remembered
X_TAIL = 1
X_NEXT = 2  # next one to be sent
X_READ = 3  # next one that may be read from disk
X_READ_AT = 4  # its index
X_CONSUMED = 5  # first one that is not consumed
X_CONSUMED_AT = 6  # its index
X_COUNT = 7  # buffers so far
X_READABLE = 8  # buffers that could be sent now
X_CURSOR = 9  # of a strategy: candidate looked at
X_CHOSEN = 10  # of a strategy: foremost buffer chosen
X_WIDTH = 11

# ---- one row a buffer, (buffers, E_WIDTH), at H_SPILLS
E_NEXT = 0  # the next one of its subpartition; of a free row: the next free one
E_PREVIOUS = 1
E_LINK = 2
E_PLACE = 3  # subpartition
E_INDEX = 4  # number in it
E_RECORDS = 5  # records that end in it
E_BYTES = 6
E_SPILL = 7  # KEPT, WRITING, ON_DISK
E_GONE = 8  # 1: not to be read from memory any more
E_HELD = 9  # 1: it holds a segment of the pool
E_LOADED = 10  # 1: being read from disk; 2: read
E_OFFSET = 11  # place in the file
E_ROUND = 12  # round in which the disk is done with it
E_WIDTH = 13

# ---- one row a region of consumers, (W_WIDTH + partitions,), at S_GROUP
W_LEFT = 0  # result partitions that are not finished and that it waits for
W_START = 1  # round from which on it may start; -1: not known
W_COUNT = 2  # spilling partitions that it reads, and their numbers
W_WIDTH = 3
