"""Subtasks of a run in memory, of which both ends of a channel see what is in it."""

from collections.abc import Sequence

from flowcontrol.job.subtask import Subtask


def connect(subtasks: Sequence[Subtask]) -> None:
    """Have both ends of each channel see what is in it; of all subtasks of a job, in memory."""
    outputs = {
        (link.name, channel.sender, channel.receiver): elements
        for subtask in subtasks
        if subtask.time is not None
        for (link, own), part in zip(subtask.out_links, subtask.time.outputs, strict=True)
        for channel, elements in zip(own, part, strict=True)
    }
    for subtask in subtasks:
        if subtask.time is not None:
            subtask.time.inputs = [
                [outputs[link.name, channel.sender, channel.receiver] for channel in own]
                for link, own in subtask.in_links
            ]
