"""Rules of the control plane by hand: set-up, and questions with answers."""

from __future__ import annotations

PAIR = "a0@0.0* b0@1.0"

STATES = {
    "a task's way": (
        "",
        """
        task CREATED SCHEDULED = SCHEDULED; task SCHEDULED DEPLOYING = DEPLOYING
        task DEPLOYING INITIALIZING = INITIALIZING; task INITIALIZING RUNNING = RUNNING
        task RUNNING FINISHED = FINISHED
        """,
    ),
    "a task that was deployed is asked to stop": (
        "",
        """
        task DEPLOYING CANCELING = CANCELING; task INITIALIZING CANCELING = CANCELING
        task RUNNING CANCELING = CANCELING; task CANCELING CANCELED = CANCELED
        task RUNNING CANCELED = refused: only CANCELING, FAILED, FINISHED may follow
        """,
    ),
    "a task that was not is cancelled at once": (
        "",
        """
        task CREATED CANCELED = CANCELED
        task SCHEDULED CANCELED = CANCELED
        task CREATED CANCELING = refused: only CANCELED, FAILED, RECONCILING, SCHEDULED may follow
        """,
    ),
    "FAILED from any that has not ended": (
        "",
        """
        task CREATED FAILED = FAILED; task SCHEDULED FAILED = FAILED
        task DEPLOYING FAILED = FAILED; task RUNNING FAILED = FAILED
        task CANCELING FAILED = FAILED
        task CANCELED FAILED = refused: that state is final
        """,
    ),
    "no task goes back": (
        "",
        """
        task RUNNING INITIALIZING = refused: only CANCELING, FAILED, FINISHED may follow
        task FINISHED RUNNING = refused: that state is final
        task CANCELING RUNNING = refused: only CANCELED, FAILED may follow
        task CREATED RUNNING = refused: only CANCELED, FAILED, RECONCILING, SCHEDULED may follow
        """,
    ),
    "reconciled after a fail-over": (
        "",
        """
        task CREATED RECONCILING = RECONCILING; task RECONCILING RUNNING = RUNNING
        task RECONCILING FAILED = FAILED
        """,
    ),
    "a job's way": (
        "",
        """
        job INITIALIZING CREATED = CREATED; job CREATED RUNNING = RUNNING
        job RUNNING FINISHED = FINISHED
        job FINISHED RUNNING = refused: that state is final
        """,
    ),
    "a job restarts": (
        "",
        """
        job RUNNING RESTARTING = RESTARTING
        job RESTARTING RUNNING = RUNNING
        job RESTARTING FINISHED = refused: only CANCELLING, FAILING, RUNNING, SUSPENDED may follow
        """,
    ),
    "a job fails": (
        "",
        """
        job RUNNING FAILING = FAILING
        job FAILING FAILED = FAILED
        job FAILED RESTARTING = refused: that state is final
        job RUNNING FAILED = refused: only CANCELLING, FAILING, FINISHED, RESTARTING, \
SUSPENDED may follow
        """,
    ),
    "a job is cancelled": (
        "",
        """
        job RUNNING CANCELLING = CANCELLING; job CANCELLING CANCELED = CANCELED
        job CANCELLING RUNNING = refused: only CANCELED, SUSPENDED may follow
        """,
    ),
    "suspended is an end, here only": (
        "",
        """
        job RUNNING SUSPENDED = SUSPENDED; job CANCELLING SUSPENDED = SUSPENDED
        job SUSPENDED RUNNING = refused: that state is final
        """,
    ),
}

SIZES = {
    "a slot more weighs 37 bytes": ("", "offer 1 = 2298; offer 2 = 2335; offer 5 = 2446"),
    "declared, and nothing declared": (
        "",
        "declared 3 = 1772; declared 1 = 1772; declared 0 = 1195",
    ),
    "a report, and the last one": ("", "reported start = 1675; reported end = 3852"),
    "descriptors by channels": (
        "",
        """
        size submit 0 4 = 15000; size submit 2 4 = 20000; size submit 4 4 = 25000
        size submit 0 0 = 15000
        """,
    ),
    "acknowledgements by operators": (
        "",
        """
        size acknowledge 1 1 = 1785; size acknowledge 1 3 = 1785
        size acknowledge 2 3 = 3151; size acknowledge 3 3 = 4517
        """,
    ),
    "heartbeats by slots and tasks": (
        "",
        """
        size asks executor 0 2 = 1253; size asks executor 2 2 = 1285
        size slot report 0 2 = 2687; size slot report 1 2 = 2898
        size slot report 2 2 = 3109; size accumulators 0 4 = 3349
        size accumulators 4 4 = 8788
        """,
    ),
}

HEARTBEATS = {
    "every ten seconds": ("", "next 0 = 10; next 9.9 = 10; next 10 = 20; next 25 = 30"),
    "from when it began": ("", "asker 3 10 50 2 = asks; next 3 = 13; next 12.9 = 13"),
    "dead after two failed calls": ("", "unreachable 10 = alive; unreachable 20 = dead"),
    "an answer between two failed calls": (
        "",
        """
        unreachable 10 = alive; answered 20 = alive; unreachable 30 = alive
        unreachable 40 = dead
        """,
    ),
    "dead after fifty seconds without an answer": (
        "",
        "answered 10 = alive; look 59.9 = alive; look 60 = dead",
    ),
    "failed calls that do not count": (
        "",
        """
        asker 0 10 50 - = asks; unreachable 10 = alive; unreachable 20 = alive
        unreachable 30 = alive; look 49 = alive; look 50 = dead
        """,
    ),
    "one failed call is enough": ("", "asker 0 10 50 1 = asks; unreachable 10 = dead"),
}

REGISTERING = {
    "answered in time": ("", "calls 0 = late at 0.1; reply 1 = registered"),
    "patience doubles": (
        "",
        """
        calls 0 = late at 0.1; late 0.1 = again at 0.1; calls 0.1 = late at 0.3
        late 0.3 = again at 0.3; calls 0.3 = late at 0.7; late 0.7 = again at 0.7
        calls 0.7 = late at 1.5
        """,
    ),
    "up to thirty seconds": (
        "",
        "calls 0 = late at 0.1\n"
        + "".join(
            f"late {at:g} = again at {at:g}\ncalls {at:g} = late at {at + step:g}\n"
            for at, step in (
                *((0.1, 0.2), (0.3, 0.4), (0.7, 0.8), (1.5, 1.6), (3.1, 3.2), (6.3, 6.4)),
                *((12.7, 12.8), (25.5, 25.6), (51.1, 30.0), (81.1, 30.0)),
            )
        ),
    ),
    "ten seconds after an error": (
        "",
        """
        calls 0 = late at 0.1; late 0.1 = again at 0.1; calls 0.1 = late at 0.3
        error 0.2 = again at 10.2; calls 10.2 = late at 10.3
        """,
    ),
    "thirty seconds after a refusal": (
        "",
        "calls 0 = late at 0.1; refusal 0.05 = again at 30.05; calls 30.05 = late at 30.15",
    ),
    "an answer that is late is passed over": (
        "",
        """
        calls 0 = late at 0.1; late 0.1 = again at 0.1; calls 0.1 = late at 0.3
        reply 1 = passed over; reply 2 = registered; reply 2 = passed over
        """,
    ),
}

FENCING = {
    "a token is sixteen bytes, new in each term": (
        "",
        "token ResourceManager 1 = 16 bytes, new; token JobMaster 2 = 16 bytes, new",
    ),
    "the right token": ("", "check t1 t1 = executed"),
    "another token": ("", "check t2 t1 = fenced: fencing token mismatch"),
    "none carried": ("", "check t1 - = fenced: fencing token mismatch"),
    "none set": ("", "check - t1 = fenced: fencing token not set"),
    "none at all": ("", "check - - = fenced: fencing token not set"),
    "nobody leads before the first leader": (
        PAIR,
        "send heartbeatFromJobManager JobMaster resources none = fenced: fencing token not set",
    ),
    "an old resource manager's caller": (
        PAIR,
        """
        begin = runs at 0.05
        leader resources = 2 x registerTaskExecutor 3195, registerJobMaster 1137, \
2 x sendSlotReport 2669, declareRequiredResources 1772
        send heartbeatFromJobManager JobMaster resources stale = fenced: fencing token mismatch
        send heartbeatFromJobManager JobMaster resources own = executed
        """,
    ),
    "a task that runs is not run again": (
        PAIR,
        """
        begin = runs at 0.05
        send submitTask JobMaster 0 own 0 7 = refused: TaskExecutor 0 runs task 0 already, as (0, 0)
        status a0 = RUNNING #0
        """,
    ),
    "a task executor is not fenced, and looks at the leader": (
        PAIR,
        """
        begin = runs at 0.05
        leader job = registerJobMaster 1137, 2 x registerTaskManager 1571, \
declareRequiredResources 1772, 2 x offerSlots 2298, 2 x submitTask 15000, \
4 x updateTaskExecutionState 1675
        send submitTask JobMaster 0 stale 0 7 = refused: its JobMaster is ...
        status a0 = RUNNING #1
        """,
    ),
}

TABLES = {
    "states": STATES,
    "sizes": SIZES,
    "heartbeats": HEARTBEATS,
    "registration": REGISTERING,
    "fencing": FENCING,
}
