"""Answers to the questions of tables about the control plane: a line each, in words."""

from __future__ import annotations

import re
from itertools import groupby

from flowcontrol.errors import FencingTokenError, ProtocolError
from flowcontrol.protocol.control.calls import (
    FURTHER_SLOT,
    JOB_MASTER,
    RESOURCE_MANAGER,
    Call,
    ControlTask,
    JobStatus,
    Name,
    Reply,
    TaskStatus,
    endpoint_of,
    move,
    size_of,
)
from flowcontrol.protocol.control.endpoint import (
    HeartbeatMonitor,
    Registration,
    check_token,
    new_token,
)
from flowcontrol.protocol.control.job_master import JobMaster
from flowcontrol.protocol.control.plane import ControlPlane

SECOND = 1_000_000
TOKEN = re.compile("[0-9a-f]{32}")
CALLS = {
    "submit": (Name.SUBMIT_TASK, ""),
    "acknowledge": (Name.ACKNOWLEDGE_CHECKPOINT, ""),
    "asks executor": (Name.HEARTBEAT_FROM_JOB_MANAGER, ""),
    "slot report": (Name.HEARTBEAT_FROM_TASK_MANAGER, RESOURCE_MANAGER),
    "accumulators": (Name.HEARTBEAT_FROM_TASK_MANAGER, JOB_MASTER),
}
TASK, JOB = {str(one): one for one in TaskStatus}, {str(one): one for one in JobStatus}


def us(seconds: str) -> int:
    return round(float(seconds) * SECOND)


def shown(at: int) -> str:
    return f"{at / SECOND:g}"


class Asked:
    """A control plane, a monitor and a registration, and what is asked of them.

    ``setup`` is one line: the tasks as ``name@manager.slot``, ``*`` behind a source, ``/n`` behind
    one of region n; then ``latency=ms``.
    """

    def __init__(self, setup: str) -> None:
        self.monitor, self.registration = HeartbeatMonitor(0), Registration()
        tasks, latency = [], 0
        for word in setup.split():
            is_source = "*" in word
            if word.startswith("latency="):
                latency = round(float(word.partition("=")[2]) * 1000)
                continue
            name, _, rest = word.replace("*", "").partition("@")
            place, _, region = rest.partition("/")
            manager, slot = map(int, place.split("."))
            tasks.append(
                ControlTask(name[:-1], int(name[-1]), manager, slot, int(region or 0), is_source)
            )
        self.names = [f"{task.vertex}{task.subtask}" for task in tasks]
        self.plane = ControlPlane(tasks, latency)
        self.old: JobMaster | None = None
        self.stale = ""

    def answer(self, question: str) -> str:
        verb, *words = question.split()
        method = getattr(self, verb)
        already = len(self.plane.log)
        try:
            answer = method(*words)
        except FencingTokenError as error:
            return f"fenced: {str(error).split(':')[0]}"
        except ProtocolError as error:
            return f"refused: {TOKEN.sub('...', str(error).rpartition(': ')[2])}"
        if answer is not None:
            return str(answer)
        calls = [call for _, call in self.plane.log[already:]]
        return ", ".join(_counted(calls)) or "nothing"

    # ------------------------------------------------------------------ rules

    def task(self, before: str, after: str) -> str:
        return move(TASK[before], TASK[after])

    def job(self, before: str, after: str) -> str:
        return move(JOB[before], JOB[after])

    def size(self, *words: str) -> int:
        numbers = [int(word) for word in words if word.isdigit()]
        what = " ".join(word for word in words if not word.isdigit())
        if what == "acknowledge":  # by the operators beyond the first
            numbers = [number - 1 for number in numbers]
        return size_of(*CALLS[what], *numbers)

    def declared(self, slots: str) -> int:
        return size_of(Name.DECLARE_REQUIRED_RESOURCES, part=int(slots), whole=1)

    def offer(self, slots: str) -> int:
        return Name.OFFER_SLOTS.least + FURTHER_SLOT * (int(slots) - 1)

    def reported(self, what: str) -> int:
        name = Name.UPDATE_TASK_EXECUTION_STATE
        return name.most if what == "end" else name.least

    def check(self, own: str, carried: str) -> str:
        check_token("RM", "a call", *(None if w == "-" else w for w in (carried, own)))
        return "executed"

    def token(self, endpoint: str, term: str) -> str:
        found = new_token(endpoint, int(term))
        others = {new_token(endpoint, int(term) + 1), new_token("another", int(term))}
        return f"{len(found) // 2} bytes, {'new' if found not in others else 'not new'}"

    def asker(self, start: str, interval: str, timeout: str, threshold: str) -> str:
        most = None if threshold == "-" else int(threshold)
        self.monitor = HeartbeatMonitor(us(start), us(interval), us(timeout), most)
        return "asks"

    def next(self, at: str) -> str:
        return shown(self.monitor.next_call(us(at)))

    def answered(self, at: str) -> str:
        self.monitor.answer(us(at))
        return "alive"

    def unreachable(self, at: str) -> str:
        return "dead" if self.monitor.fail(us(at)) else "alive"

    def look(self, at: str) -> str:
        return "dead" if self.monitor.is_dead(us(at)) else "alive"

    def calls(self, at: str) -> str:
        return f"late at {shown(self.registration.call(us(at)))}"

    def late(self, at: str) -> str:
        return f"again at {shown(self.registration.timed_out(us(at)))}"

    def error(self, at: str) -> str:
        return f"again at {shown(self.registration.failed(us(at)))}"

    def refusal(self, at: str) -> str:
        return f"again at {shown(self.registration.refused(us(at)))}"

    def reply(self, number: str) -> str:
        return "registered" if self.registration.answered(int(number)) else "passed over"

    # ------------------------------------------------------------------ the plane

    def start(self) -> None:
        self.plane.lead_resources()
        for name in dict.fromkeys(task.executor for task in self.plane.tasks):
            self.plane.start_executor(name)
        self.plane.run(self.plane.now)

    def submit(self) -> None:
        self.plane.submit()
        self.plane.run(self.plane.now)

    def run(self, until: str) -> None:
        self.plane.run(us(until))

    def begin(self) -> str:
        """Have the whole job run."""
        self.start()
        self.submit()
        while not self.plane.is_running():
            self.plane.step()
        self.plane.run(self.plane.now + self.plane.latency)
        return f"runs at {shown(self.plane.now - self.plane.latency)}"

    def status(self, name: str = "") -> str:
        own = self.plane.master
        if not name:
            return own.status
        number = self.names.index(name)
        return f"{own.tasks[number]} #{own.attempts[number]}"

    def slots(self) -> str:
        found = [
            f"{name[-1]}.{index} {slot.status}"
            for name, own in sorted(self.plane.executors.items())
            for index, slot in own.slots.items()
        ]
        return ", ".join(found)

    def trigger(self, checkpoint: str) -> None:
        self.plane.do(self.plane.master.trigger(int(checkpoint)))
        self.plane.run(self.plane.now)

    def ack(self, name: str, checkpoint: str) -> None:
        self.plane.do(self.plane.acknowledge(self.names.index(name), int(checkpoint)))
        self.plane.run(self.plane.now)

    def abort(self, checkpoint: str) -> None:
        self.plane.do(self.plane.master.abort(int(checkpoint)))
        self.plane.run(self.plane.now)

    def completed(self) -> int:
        return self.plane.master.completed

    def end(self, name: str, status: str) -> None:
        number = self.names.index(name)
        own = self.plane.executors[self.plane.tasks[number].executor]
        attempt = next(one for one in own.tasks if one[0] == number)
        self.plane.do(own.end(attempt, TASK[status]))
        self.plane.run(self.plane.now)

    def finish(self) -> None:
        for name in self.names:
            self.end(name, "FINISHED")

    def restart(self) -> None:
        own = self.plane.master
        self.plane.do(own.restart(self.plane.now, own.restarting()))
        self.plane.run(self.plane.now)

    def cancel(self) -> None:
        self.plane.do(self.plane.master.cancel())
        self.plane.run(self.plane.now)

    def failjob(self) -> None:
        self.plane.do(self.plane.master.fail_job())
        self.plane.run(self.plane.now)

    def kill(self, manager: str) -> None:
        self.plane.kill_executor(endpoint_of(int(manager)))

    def again(self, manager: str) -> None:
        self.plane.start_executor(endpoint_of(int(manager)))
        self.plane.run(self.plane.now)

    def leader(self, who: str) -> None:
        if who == "resources":
            self.stale = str(self.plane.resources.token)
            self.plane.lead_resources()
        else:
            self.old, self.stale = self.plane.job, str(self.plane.master.token)
            self.plane.lead_job()
        self.plane.run(self.plane.now)

    def lose(self, manager: str) -> None:
        """Have a task executor notice that its JobMaster does not ask it any more."""
        own = self.plane.executors[endpoint_of(int(manager))]
        self.plane.do(own.lose_job(self.plane.now))
        self.plane.run(self.plane.now)

    def unheard(self, who: str, manager: str) -> None:
        """Have a heartbeat to a task executor fail, which lives."""
        names = {"resources": Name.HEARTBEAT_FROM_RESOURCE_MANAGER}
        target = RESOURCE_MANAGER if who == "resources" else JOB_MASTER
        name = names.get(who, Name.HEARTBEAT_FROM_JOB_MANAGER)
        source = endpoint_of(int(manager))
        self.plane.do([Reply(source, target, name, (), "timed out")])
        self.plane.run(self.plane.now)

    def idle(self, until: str) -> str:
        """Let time pass, whatever is sent meanwhile."""
        self.plane.run(us(until))
        return "yes"

    def before(self) -> str:
        assert self.old is not None
        return self.old.status

    def restores(self) -> str:
        last = [call for _, call in self.plane.log if call.name == Name.SUBMIT_TASK][-1]
        return f"checkpoint {last.args[1]}"

    def send(self, name: str, source: str, *words: str) -> str:
        """Have a call come with a token: ``stale``, ``none`` or ``own``."""
        targets = {"resources": RESOURCE_MANAGER, "job": JOB_MASTER}
        target = targets.get(words[0]) or endpoint_of(int(words[0]))
        current = {
            RESOURCE_MANAGER: self.plane.resources.token,
            JOB_MASTER: self.plane.master.token if self.plane.job else None,
        }
        own = current.get(target, self.plane.master.token if self.plane.job else None)
        token = {"stale": self.stale, "none": None, "own": own}[words[1]]
        args = tuple(int(w) if w.lstrip("-").isdigit() else self.names.index(w) for w in words[2:])
        if name == "submitTask":
            args = ((args[0], args[1]), -1)
        call = Call(source, target, Name(name), token, 0, args)
        count = len(self.plane.refused)
        self.plane.do([call])
        self.plane.run(self.plane.now)
        refused = self.plane.refused[count:]
        if not refused:
            return "executed"
        raise refused[0][2]


def _counted(calls: list[Call]) -> list[str]:
    found = []
    for (name, nbytes), group in groupby((str(call.name), call.nbytes) for call in calls):
        count = len(list(group))
        found.append(f"{count} x {name} {nbytes}" if count > 1 else f"{name} {nbytes}")
    return found
