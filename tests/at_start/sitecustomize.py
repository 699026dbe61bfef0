"""Python imports this when it starts, where a test has put this folder on its path."""

import os

import kill_at

kill_at.install(os.environ.get(kill_at.VARIABLE, ""))
