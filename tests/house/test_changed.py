"""What ``run-tests.sh --changed`` chooses, and what the quick form leaves out."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from modules import load

changed = load("scripts/changed.py")

FILES = {
    "flowcontrol/__init__.py": "",
    "flowcontrol/a/__init__.py": "from flowcontrol.a.rules import f\n",
    "flowcontrol/a/rules.py": "def f(): ...\n",
    "flowcontrol/a/table.yaml": "",
    "flowcontrol/b.py": "def g():\n    from flowcontrol.a import f\n",
    "flowcontrol/c.py": "if TYPE_CHECKING:\n    from flowcontrol.a.rules import f\n\nX = 1\n",
    "flowcontrol/d.py": "from . import (\n    b,\n)\n",
    "flowcontrol/__main__.py": "import flowcontrol.c\n",
    "conf/skew.yaml": "",
    "conf/burst.yaml": "",
    "tests/conftest.py": (
        "import pytest\n\n@pytest.fixture(scope='session')\ndef made(\n    other: int,\n) -> int:\n"
        "    return 1\n\n\n@pytest.fixture\ndef other():\n    from flowcontrol import d\n\n    x\n"
    ),
    "tests/helper.py": "import flowcontrol.b\n",
    "tests/test_by_list.py": "from flowcontrol.a import f\n",
    "tests/test_by_fixture.py": "def test_x(made): ...\n",
    "tests/test_by_load.py": "load('tests/helper.py')\n",
    "tests/test_by_import.py": "import helper\n",
    "tests/test_by_text.py": "run(['-c', 'from flowcontrol.a.rules import f'])\n",
    "tests/test_command.py": "run(['-m', 'flowcontrol', 'emulate'])\n",
    "tests/test_conf.py": "CONF / f'{name}.yaml'\nname = 'skew'\n",
    "tests/test_all_conf.py": "(ROOT / 'conf').glob('*.yaml')\n",
    "tests/test_other.py": "import flowcontrol.c\n",
}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with these files."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def reached_tests(changed: ModuleType, root: Path, *files: str) -> dict[str, int]:
    found = changed.reach(files, changed.Needs(FILES, root).graph())
    return {
        Path(file).stem.removeprefix("test_"): one.distance
        for file, one in found.items()
        if changed.is_test(file)
    }


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            ["flowcontrol/a/rules.py"],
            {"by_list": 1, "by_text": 1, "by_load": 3, "by_import": 3, "by_fixture": 3},
        ),
        (
            ["flowcontrol/a/table.yaml"],
            {"by_list": 1, "by_text": 2, "by_load": 3, "by_import": 3, "by_fixture": 3},
        ),
        (["flowcontrol/c.py"], {"other": 1, "command": 2}),
        (["flowcontrol/d.py"], {"by_fixture": 1}),
        (["conf/skew.yaml"], {"conf": 1, "all_conf": 1}),
        (["conf/burst.yaml"], {"all_conf": 1}),
        (["tests/helper.py", "tests/test_other.py"], {"other": 0, "by_load": 1, "by_import": 1}),
        (["README.md"], {}),
    ],
)
def test_what_a_change_reaches(made: Path, files: list[str], found: dict[str, int]) -> None:
    assert reached_tests(changed, made, *files) == found


def test_what_has_changed_since_main(made: Path) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(["git", *who, *words], cwd=made, check=True, capture_output=True)
        return done.stdout.decode().strip()

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "first")
    assert changed.base(made) == ""
    first = git("rev-parse", "HEAD")
    (made / "conf/skew.yaml").write_text("a: 1\n")
    git("commit", "-qam", "second")
    assert changed.base(made) == first  # main itself: against the commit before
    git("checkout", "-qb", "work")
    assert changed.base(made) == first
    second = git("rev-parse", "HEAD")
    git("mv", "conf/burst.yaml", "conf/rush.yaml")
    git("commit", "-qm", "third")
    assert changed.base(made) == second
    (made / "tests/test_new.py").write_text("")
    (made / "flowcontrol/d.py").write_text("")
    assert changed.changed_files(second, made) == [
        "conf/burst.yaml", "conf/rush.yaml", "flowcontrol/d.py", "tests/test_new.py"
    ]  # fmt: skip
    assert {"tests/test_new.py", "conf/rush.yaml"} < {*changed.tracked(made)}
    assert "conf/burst.yaml" not in changed.tracked(made)


def test_a_mutant_is_near_the_tests_that_catch_it() -> None:
    """So the quick form runs some of them, and all where they stand in BY_CHANGE."""
    checks, mutants = load("scripts/checks.py"), load("scripts/mutants.py").read_mutants()
    graph = changed.Needs(changed.tracked()).graph()
    lost = []
    for mutant in mutants:
        found = changed.reach([mutant.file], graph)
        run = [file for file in found if changed.is_test(file) and file.startswith(mutant.tests)]
        far = [file for file in run if file.startswith(checks.BY_CHANGE)]
        if all(found[file].distance > checks.NEAR for file in run if run == far):
            lost += [f"{mutant.number}: {mutant.file}"] * (run == far)
    assert lost == []
