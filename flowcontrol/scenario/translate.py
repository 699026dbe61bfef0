"""From pydantic's errors to problems that an author can act on.

pydantic knows where an error is and what was given; this module adds what the key is for,
what it may be, and the nearest known name.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from flowcontrol.errors import Problem
from flowcontrol.scenario.problems import key_path, known, show
from flowcontrol.scenario.schedule import TAG_MARK

ModelT = TypeVar("ModelT", bound=BaseModel)
Part = str | int


def read_part(
    model: type[ModelT], raw: object, at: tuple[Part, ...], problems: list[Problem]
) -> ModelT | None:
    """Read one mapping of the file.

    ``problems``: grows by everything that is wrong.

    Returns the mapping; None if something is wrong with it.
    """
    if not isinstance(raw, Mapping):
        problems.append(Problem(key_path(at), f"{show(raw)} is not a mapping of keys to values"))
        return None
    try:
        return model.model_validate(dict(raw))
    except ValidationError as error:
        details = error.errors(include_url=False)
        problems.extend(_problem(model, detail, at) for detail in details)
        return None


def _problem(model: type[BaseModel], detail: ErrorDetails, at: tuple[Part, ...]) -> Problem:
    """Translate one of pydantic's errors."""
    parts = [part for part in detail["loc"] if not str(part).startswith(TAG_MARK)]
    if parts and parts[-1] == _KEY_MARK:
        return Problem(key_path([*at, *parts[:-2]]), _no_key(detail["input"]))
    owner, field = _find(model, parts)
    inner = detail.get("ctx", {}).get("at", ())
    return Problem(key_path([*at, *parts, *inner]), _message(detail, parts, owner, field))


def _no_key(value: object) -> str:
    return f"{show(value)} is a key, but not text: write it in quotes"


def _find(model: type[BaseModel], parts: list[Part]) -> tuple[type[BaseModel], FieldInfo | None]:
    """Follow a place down the models: the model that holds the last key, and its field."""
    owner, field = model, None
    for part in parts:
        if not isinstance(part, str):
            continue
        inner = _model_in(field.annotation) if field is not None else None
        owner = inner or owner
        field = _by_key(owner).get(part, field if inner is None else None)
    return owner, field


def _by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as ``tuple[PhaseSpec, ...] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(argument) for argument in get_args(annotation))
    return next((model for model in found if model is not None), None)


def _whose(key: str, owner: type[BaseModel]) -> str:
    """Say in which mapping of its owner an unknown key would be known, if in any."""
    for name, field in _by_key(owner).items():
        inner = _model_in(field.annotation)
        if inner is not None and key in _by_key(inner):
            return f"; it is a key of {name}"
    return ""


_KEY_MARK = "[key]"
"""How pydantic marks the place of a mapping's key."""

_SHAPES = {
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}


def _message(
    detail: ErrorDetails, parts: list[Part], owner: type[BaseModel], field: FieldInfo | None
) -> str:
    """Say value, limit and remedy of one error."""
    kind, value = detail["type"], detail["input"]
    meaning = field.description if field is not None else ""
    if kind == "scenario":
        return str(detail["ctx"]["message"])
    if kind == "invalid_key":
        return _no_key(parts[-1])
    if kind == "extra_forbidden":
        return known(str(parts[-1]), _by_key(owner), "key") + _whose(str(parts[-1]), owner)
    if kind == "missing":
        return f"is missing: {meaning}"
    if kind == "literal_error":
        choices = detail["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        return (
            known(str(value), choices, str(parts[-1]))
            if isinstance(value, str)
            else (f"{show(value)} is not one of {', '.join(choices)}")
        )
    if kind in {"too_short", "string_too_short"}:
        return f"{show(value)} is empty: needs at least 1 ({meaning})"
    if kind in _SHAPES:
        return f"{show(value)} is not {_SHAPES[kind]}: {meaning}"
    return f"{show(value)} is refused: {detail['msg']} ({meaning})"
