"""A page in headless Chromium, driven through its DevTools protocol over a pipe.

The protocol needs no library: a command is a line of JSON that ends in a zero byte.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SWITCHES = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe",
)  # fmt: skip
KEYS = {
    "ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38, "ArrowDown": 40, "Home": 36, "End": 35,
    "Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "n": 78, "p": 80, "?": 191, "+": 187, "-": 189,
}  # fmt: skip
STARTER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
TEXTS = {"Enter": "\r", **{key: key for key in " np?+-"}}


def program() -> str | None:
    """Return the path of a Chromium; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def _pipe() -> tuple[int, int]:
    """Return a pipe whose ends are not 3 or 4, which are the protocol's."""
    low = os.pipe()
    read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return read, write


class Browser:
    """A browser with one page; use it as a context manager.

    Parameters
    ----------
    path : str
        Of Chromium.
    profile : Path
        An empty folder.
    """

    def __init__(self, path: str, profile: Path) -> None:
        read_here, write_there = _pipe()
        read_there, write_here = _pipe()
        starter = [sys.executable, "-c", STARTER, str(read_there), str(write_there)]
        self._process = subprocess.Popen(
            [*starter, path, *SWITCHES, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(read_there, write_there),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self._input, self._output = os.fdopen(write_here, "wb"), os.fdopen(read_here, "rb")
        self._sent, self._left, self._session = 0, b"", ""
        self.errors: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(target for target in targets if target["type"] == "page")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session = ""
        self.call("Browser.close")  # ends the processes that still write to the profile, too
        self._process.wait()
        self._input.close()
        self._output.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a command; errors of the page are kept meanwhile."""
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._input.write(json.dumps(message).encode() + b"\0")
        self._input.flush()
        while (answer := self._next()).get("id") != self._sent:
            self._note(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            part = os.read(self._output.fileno(), 1 << 20)
            assert part, "the browser has ended"
            self._left += part
        line, self._left = self._left.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        if event["method"] == "Runtime.exceptionThrown":
            self.errors.append(str(event["params"]["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.errors.append(str(event["params"]["entry"]))

    def open(self, path: Path) -> None:
        """Show a page, and return when its scripts have run."""
        self.call("Page.navigate", url=path.as_uri())
        self.evaluate(
            "new Promise((done) => document.readyState === 'complete' ? done() "
            ": addEventListener('load', done)).then(() => window.drawn)"
        )

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page; it may be a promise."""
        done = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key on what has the focus."""
        shared = {"key": key, "code": "Space" if key == " " else key}
        for kind in ("keyDown", "keyUp"):
            text = {"text": TEXTS[key]} if kind == "keyDown" and key in TEXTS else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind, windowsVirtualKeyCode=KEYS[key], **shared, **text,
            )  # fmt: skip

    def show(self, width: int, *, is_dark: bool = False, height: int = 900) -> None:
        """Set the size of the window and the theme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path, selector: str = "body") -> None:
        """Write a picture of an element."""
        box = self.evaluate(
            f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()"
        )
        clip = {key: box[key] for key in ("x", "y", "width", "height")} | {"scale": 1}
        clip["y"] += self.evaluate("scrollY")
        shot = self.call(
            "Page.captureScreenshot", captureBeyondViewport=True, format="png", clip=clip
        )
        path.write_bytes(base64.b64decode(shot["data"]))
