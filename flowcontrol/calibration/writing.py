"""A fitted scenario as a file: each figure with its origin beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from flowcontrol.calibration.bodies import plain
from flowcontrol.calibration.draft import Draft

WIDTH: Final = 110
"""Longest line with a comment at its end; a longer comment stands above its key."""


def scenario_text(draft: Draft) -> str:
    """Return the text of ``scenario.yaml``."""
    comments = {figure.key: f"# {plain(figure.comment)}" for figure in draft.figures}
    assumed = sum(1 for _ in draft.assumptions)
    measured = len(draft.figures) - assumed
    are, those = ("is", "it") if assumed == 1 else ("are", "those")
    look = f": look at {those}, and change what you know better" if assumed else ""
    lines = [
        f"# Fitted by `flowcontrol calibrate` to {plain(draft.source)}.",
        f"# {measured} figures are measured, {assumed} {are} assumed{look}.",
        *(f"# {plain(note)}" for note in draft.notes),
    ]
    lines += _block(draft.mapping, "", "", comments)
    absent = [
        f"# {key}: {text.removeprefix('# ')}"
        for key, text in comments.items()  # what is left: figures whose key the file leaves out
    ]
    return "\n".join([*lines, *(["#", "# Left out:"] if absent else []), *absent]) + "\n"


def _block(
    mapping: Mapping[str, Any], path: str, indent: str, comments: dict[str, str]
) -> list[str]:
    lines: list[str] = []
    for key, value in mapping.items():
        own = f"{path}.{key}" if path else key
        comment = comments.pop(own, "")
        is_noted = any(key.startswith(f"{own}.") for key in comments)
        if isinstance(value, Mapping) and value and (is_noted or not _is_short(value)):
            lines += _commented(f"{indent}{_scalar(key)}:", comment, indent)
            lines += _block(value, own, indent + "  ", comments)
        elif _is_list_of_mappings(value):
            lines += _commented(f"{indent}{key}:", comment, indent)
            for item in value:
                lines += _item(item, own, indent + "  ", comments)
        else:
            lines += _commented(f"{indent}{_scalar(key)}: {_scalar(value)}", comment, indent)
    return lines


def _item(item: Mapping[str, Any], path: str, indent: str, comments: dict[str, str]) -> list[str]:
    """Return a stage or an edge; its figures are named by its name or its ends."""
    name = item.get("name") or f"{item.get('from')}->{item.get('to')}"
    lines = _block(item, f"{path}.{name}", indent + "  ", comments)
    first = next(n for n, line in enumerate(lines) if not line.lstrip().startswith("#"))
    lines[first] = f"{indent}- {lines[first].lstrip()}"
    # A list of figures by subtask: what is noted of one of them.
    inner = [key for key in comments if key.startswith(f"{path}.{name}.") and key.endswith("]")]
    return lines + [f"{indent}  {comments.pop(key)} ({key.rpartition('.')[2]})" for key in inner]


def _commented(line: str, comment: str, indent: str) -> list[str]:
    if not comment:
        return [line]
    if len(line) + 2 + len(comment) <= WIDTH:
        return [f"{line}  {comment}"]
    return [f"{indent}{comment}", line]


def _is_short(value: Mapping[str, Any]) -> bool:
    return all(not isinstance(one, Mapping | list) for one in value.values()) and len(value) <= 2


def _is_list_of_mappings(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and bool(value) and isinstance(value[0], Mapping)


def _scalar(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=2**20, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
