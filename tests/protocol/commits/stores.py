"""A transactional store in memory that can be told where to fail, and remembers its calls."""

from __future__ import annotations


class StoreError(Exception):
    """The store failed."""


class Store:
    """Staged rows by name, visible rows, and a plan of failures.

    ``fail(call, when)`` plants a failure of the next call of that name: "before" it had any
    effect, or "after" it had all of it.
    """

    def __init__(self):
        self.visible = []
        self.staged = {}
        self.flushed = set()
        self.gone = {}  # committed or aborted transactions and which
        self.calls = []
        self.planned = {}
        self.begun = 0

    def fail(self, call, when="before", times=1):
        self.planned[call] = (when, times)

    def begin(self):
        return self._do("begin", None, self._begin)

    def write(self, name, row):
        assert name not in self.flushed, f"{name} is written after its pre-commit"
        self._do("write", name, lambda: self.staged[name].append(row))

    def flush(self, name):
        self._do("flush", name, lambda: self.flushed.add(name))

    def commit(self, name):
        assert self.gone.get(name) != "aborted", f"{name} is committed after its abortion"
        self._do("commit", name, lambda: self._commit(name))

    def abort(self, name):
        assert self.gone.get(name) != "committed", f"{name} is aborted after its commit"
        self._do("abort", name, lambda: self._end(name, "aborted"))

    def _begin(self):
        self.begun += 1
        name = f"t{self.begun}"
        self.staged[name] = []
        return name

    def _commit(self, name):
        assert name in self.flushed, f"{name} is committed without its pre-commit"
        self.visible += self._end(name, "committed")

    def _end(self, name, how):
        self.gone[name] = how
        return self.staged.pop(name, [])

    def _do(self, call, name, effect):
        when, times = self.planned.get(call, ("", 0))
        if times > 1:
            self.planned[call] = (when, times - 1)
        else:
            self.planned.pop(call, None)
        if when == "before":
            raise StoreError(f"{call} {name} failed")
        result = effect()
        self.calls.append(call if name is None else f"{call} {name}")
        if when == "after":
            raise StoreError(f"{call} {result or name} failed after its work")
        return result
