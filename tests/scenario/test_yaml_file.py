from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario.syntax import read_yaml, read_yaml_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("no", "no"),
        ("off", "off"),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-12", -12),
        ("+12", 12),
        ("012", 12),
        ("10_000", 10_000),
        ("0x10", "0x10"),
        ("1:30", "1:30"),
        ("0.1", 0.1),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("1.5e+3", 1500.0),
        ("-.inf", float("-inf")),
        ("2024-01-01", "2024-01-01"),
        ("100ms", "100ms"),
        ("'12'", "12"),
        ("[1, a]", [1, "a"]),
        ("{a: 1, b: [c]}", {"a": 1, "b": ["c"]}),
    ],
)
def test_words(text: str, value: object) -> None:
    found = read_yaml_value(text)
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_read() -> None:
    assert str(read_yaml_value(".nan")) == "nan"


def test_merged_keys_may_be_overridden() -> None:
    value = read_yaml_value("a: &x {k: 1, l: 2}\nb: {<<: *x, k: 3}")
    assert value["b"] == {"k": 3, "l": 2}


def refusal(path: Path) -> tuple[str, str]:
    with pytest.raises(ScenarioError) as caught:
        read_yaml(path)
    assert caught.value.source == str(path)
    [problem] = caught.value.problems
    return problem.place, problem.message


@pytest.mark.parametrize(
    ("content", "place", "text"),
    [
        (b"", "file", "is empty"),
        (b"# only a comment\n", "file", "is empty"),
        (b"- a\n- b\n", "file", "holds a list"),
        (b"just words", "file", "holds a str"),
        (b"3", "file", "holds a int"),
        (b"a: 1\nb: 2\na: 3\n", "line 3, column 1", "'a' is repeated, first in line 1"),
        (b"a:\n  b: 1\n  b: 1\n", "line 3, column 3", "'b' is repeated"),
        (b"a: [1, 2\n", "line 2, column 1", "is not YAML"),
        (b"a: 1\n\tb: 2\n", "line 2, column 1", "is not YAML"),
        (b"a: b: c\n", "line 1, column 5", "is not YAML"),
        (b"a: !!python/object/apply:os.getcwd []\n", "line 1, column 4", "is not YAML"),
        (b"a: *nothing\n", "line 1, column 4", "is not YAML"),
        (b"? [a]\n: 1\n", "line 1, column 3", "is not YAML"),
        (b"a: 1\n---\nb: 2\n", "line 2, column 1", "is not YAML"),
        (b"a: \xff\n", "file", "is not text in UTF-8"),
        (b"a: \x00\n", "file", "is not YAML"),
        (b"a: " + b"9" * 5000, "file", "is not YAML that can be read"),
    ],
)
def test_bad_files(tmp_path: Path, content: bytes, place: str, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    assert refusal(path) == (place, refusal(path)[1])
    assert text in refusal(path)[1]


def test_files_that_are_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no.yaml") == ("file", "cannot be read: No such file or directory")
    assert refusal(tmp_path) == ("file", "cannot be read: Is a directory")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text("\ufeffschema: 1\nname: größe\n", encoding="utf-8")
    expected: dict[str, Any] = {"schema": 1, "name": "größe"}
    assert read_yaml(path) == expected
