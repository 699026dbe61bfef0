"""Stores that do not answer: refused by name, and never the end of the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flowcontrol.errors import LedgerError
from flowcontrol.ledger import paths as stores
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.link import Link

ABFSS = "abfss://container@no-account-of-that-name.dfs.core.windows.net/links/x"


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No answer of another test, and no credentials."""
    stores._ask.cache_clear()
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("uri", [ABFSS, "gs://bucket/links/x", "hdfs://node:9000/links/x"])
@pytest.mark.parametrize(
    ("ask", "why"),
    [
        ("import os; os.abort()", r"the client ended with status -6"),
        ("import sys; sys.exit('OSError: no token')", "OSError: no token"),
        ("import sys; assert sys.stdin.read().endswith('/links/y')", "AssertionError"),
    ],
)
def test_a_client_that_fails_is_a_refusal(monkeypatch, uri, ask, why):
    monkeypatch.setattr(stores, "ASK", ask)
    with pytest.raises(
        LedgerError, match=rf"{uri}: the store cannot be reached: .*{why}.*Nothing was written"
    ):
        Link(uri, channels=2)


def test_a_client_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(stores, "ASK", "import time; time.sleep(3600)")
    monkeypatch.setattr(stores, "PATIENCE_S", 0.2)
    with pytest.raises(LedgerError, match=r"no answer within 0\.2 s.*GOOGLE_APPLICATION_CRED"):
        Storage("gs://bucket/x").exists("link.json")


def test_it_is_asked_once(monkeypatch):
    asked = []

    def run(*arguments, **named):
        asked.append(named["input"])
        return subprocess.CompletedProcess([], 1, "", "no")

    monkeypatch.setattr(subprocess, "run", run)
    for _ in range(3):
        with pytest.raises(LedgerError, match="cannot be reached: no"):
            Storage("gs://bucket/x").read("link.json")
    assert asked == ["gs://bucket/x"]


def test_without_credentials_a_process_is_told_and_goes_on():
    """Whether or not there is a network: there is no such account."""
    code = (
        "from flowcontrol.errors import FlowControlError\n"
        "from flowcontrol.link.link import Link\n"
        "try:\n"
        f"    Link({ABFSS!r}, channels=2)\n"
        "except FlowControlError as error:\n"
        "    print('refused:', error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"refused: {ABFSS}: the store cannot be reached: ")
