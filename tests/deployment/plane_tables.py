"""The control plane at work by hand: set-up, and what is sent behind each line."""

from __future__ import annotations

PAIR = "a0@0.0* b0@1.0"
LANES = "a0@0.0*/0 b0@0.0/0 a1@1.0*/1 b1@1.0/1"
FOUR = "a0@0.0* a1@1.0* b0@0.0 b1@1.0 b2@0.1 c0@0.0 c1@1.0"

START = {
    "task executors register and report": (
        FOUR,
        "start = 2 x registerTaskExecutor 3195, 2 x sendSlotReport 2669",
    ),
    "a job is submitted": (
        FOUR,
        """
        start = 2 x registerTaskExecutor 3195, 2 x sendSlotReport 2669
        submit = submitJob 42942, registerJobMaster 1137, declareRequiredResources 1772
        status = RUNNING
        status a0 = SCHEDULED #0
        """,
    ),
    "slots are asked for 50 ms later, and tasks sent": (
        FOUR,
        """
        start = 2 x registerTaskExecutor 3195, 2 x sendSlotReport 2669
        submit = submitJob 42942, registerJobMaster 1137, declareRequiredResources 1772
        run 0.049999 = nothing
        run 0.05 = 3 x requestSlot 2389, 2 x registerTaskManager 1571, offerSlots 2335, \
offerSlots 2298, 7 x submitTask 15000, 14 x updateTaskExecutionState 1675
        status a0 = RUNNING #0
        slots = 0.0 ACTIVE, 0.1 ACTIVE, 1.0 ACTIVE
        """,
    ),
    "a job before its task executors waits": (
        PAIR,
        """
        submit = submitJob 42942
        start = registerJobMaster 1137, 2 x registerTaskExecutor 3195, \
declareRequiredResources 1772, 2 x sendSlotReport 2669
        run 0.05 = 2 x requestSlot 2389, 2 x registerTaskManager 1571, 2 x offerSlots 2298, \
2 x submitTask 15000, 4 x updateTaskExecutionState 1675
        """,
    ),
    "nine calls in a row and 50 ms": (f"{PAIR} latency=10", "begin = runs at 0.14"),
    "registrations that take longer than their first patience": (
        f"{PAIR} latency=60",
        "begin = runs at 0.79",
    ),
    "heartbeats": (
        PAIR,
        """
        begin = runs at 0.05
        run 9.999 = nothing
        run 10 = 2 x heartbeatFromResourceManager 636, heartbeatFromResourceManager 633, \
2 x heartbeatFromJobManager 1285, 2 x heartbeatFromTaskManager 3109, \
heartbeatFromJobManager 634, 2 x heartbeatFromTaskManager 8788
        run 19.999 = nothing
        """,
    ),
    "a checkpoint": (
        PAIR,
        """
        begin = runs at 0.05
        trigger 1 = triggerCheckpoint 2144
        ack a0 1 = acknowledgeCheckpoint 1785
        completed = -1
        ack b0 1 = acknowledgeCheckpoint 1785, 2 x confirmCheckpoint 1279
        completed = 1
        """,
    ),
    "a checkpoint that is aborted": (
        PAIR,
        """
        begin = runs at 0.05
        trigger 1 = triggerCheckpoint 2144
        ack a0 1 = acknowledgeCheckpoint 1785
        abort 1 = 2 x abortCheckpoint 1279
        ack b0 1 = acknowledgeCheckpoint 1785
        completed = -1
        """,
    ),
}

ENDS = {
    "cancelled": (
        PAIR,
        """
        begin = runs at 0.05
        cancel = 2 x cancelTask 1341, 2 x updateTaskExecutionState 3852, freeSlot 3232, \
declareRequiredResources 1772, freeSlot 3232, declareRequiredResources 1195
        status = CANCELED
        status a0 = CANCELED #0
        slots = 0.0 FREE, 1.0 FREE
        """,
    ),
    "cancelled while it waits for slots": (
        PAIR,
        """
        start = 2 x registerTaskExecutor 3195, 2 x sendSlotReport 2669
        submit = submitJob 42942, registerJobMaster 1137, declareRequiredResources 1772
        cancel = declareRequiredResources 1772, declareRequiredResources 1195
        status = CANCELED
        run 1 = nothing
        """,
    ),
    "finished": (
        PAIR,
        """
        begin = runs at 0.05
        end a0 FINISHED = updateTaskExecutionState 3852
        status = RUNNING
        end b0 FINISHED = updateTaskExecutionState 3852, freeSlot 3232, \
declareRequiredResources 1772, freeSlot 3232, declareRequiredResources 1195
        status = FINISHED
        """,
    ),
    "failed for good": (
        PAIR,
        """
        begin = runs at 0.05
        end b0 FAILED = updateTaskExecutionState 3852, cancelTask 1341, \
updateTaskExecutionState 3852
        failjob = freeSlot 3232, declareRequiredResources 1772, freeSlot 3232, \
declareRequiredResources 1195
        status = FAILED
        """,
    ),
}

FAILURES = {
    "a task fails and its region restarts": (
        PAIR,
        """
        begin = runs at 0.05
        end b0 FAILED = updateTaskExecutionState 3852, cancelTask 1341, \
updateTaskExecutionState 3852
        status = RESTARTING
        status a0 = CANCELED #0
        status b0 = FAILED #0
        restart = 2 x submitTask 15000, 4 x updateTaskExecutionState 1675
        status = RUNNING
        status b0 = RUNNING #1
        """,
    ),
    "other regions run on": (
        LANES,
        """
        begin = runs at 0.05
        end b0 FAILED = updateTaskExecutionState 3852, cancelTask 1341, \
updateTaskExecutionState 3852
        status a1 = RUNNING #0
        restart = 2 x submitTask 15000, 4 x updateTaskExecutionState 1675
        status a1 = RUNNING #0
        status a0 = RUNNING #1
        """,
    ),
    "it begins from the latest completed checkpoint": (
        PAIR,
        """
        begin = runs at 0.05
        trigger 1 = triggerCheckpoint 2144
        ack a0 1 = acknowledgeCheckpoint 1785
        ack b0 1 = acknowledgeCheckpoint 1785, 2 x confirmCheckpoint 1279
        end a0 FAILED = updateTaskExecutionState 3852, cancelTask 1341, \
updateTaskExecutionState 3852
        restart = 2 x submitTask 15000, 4 x updateTaskExecutionState 1675
        restores = checkpoint 1
        """,
    ),
    "a task manager dies: two failed heartbeats": (
        LANES,
        """
        begin = runs at 0.05
        kill 1 = nothing
        run 10 = 2 x heartbeatFromResourceManager 636, heartbeatFromResourceManager 633, \
2 x heartbeatFromJobManager 1285, heartbeatFromTaskManager 3109, \
heartbeatFromJobManager 634, heartbeatFromTaskManager 8788
        status = RUNNING
        run 20 = 2 x heartbeatFromResourceManager 636, heartbeatFromResourceManager 633, \
2 x heartbeatFromJobManager 1285, heartbeatFromTaskManager 3109, \
heartbeatFromJobManager 634, heartbeatFromTaskManager 8788, declareRequiredResources 1772
        status = RESTARTING
        status a1 = FAILED #0
        status a0 = RUNNING #0
        """,
    ),
    "its tasks wait for slots": (
        LANES,
        """
        begin = runs at 0.05
        kill 1 = nothing
        run 20 = 2 x heartbeatFromResourceManager 636, heartbeatFromResourceManager 633, \
2 x heartbeatFromJobManager 1285, heartbeatFromTaskManager 3109, \
heartbeatFromJobManager 634, heartbeatFromTaskManager 8788, \
2 x heartbeatFromResourceManager 636, heartbeatFromResourceManager 633, \
2 x heartbeatFromJobManager 1285, heartbeatFromTaskManager 3109, \
heartbeatFromJobManager 634, heartbeatFromTaskManager 8788, declareRequiredResources 1772
        restart = declareRequiredResources 1772
        status a1 = SCHEDULED #1
        again 1 = registerTaskExecutor 3195, sendSlotReport 2669
        run 20.049999 = nothing
        run 20.05 = requestSlot 2389, registerTaskManager 1571, offerSlots 2298, \
2 x submitTask 15000, 4 x updateTaskExecutionState 1675
        status a1 = RUNNING #1
        status a0 = RUNNING #0
        """,
    ),
    "a new process before anybody missed the old one": (
        PAIR,
        """
        begin = runs at 0.05
        kill 1 = nothing
        again 1 = registerTaskExecutor 3195, sendSlotReport 2669
        slots = 0.0 ACTIVE, 1.0 FREE
        run 0.1 = requestSlot 2389, registerTaskManager 1571, cancelTask 1341, \
declareRequiredResources 1772, updateTaskExecutionState 3852, offerSlots 2298
        status b0 = FAILED #0
        slots = 0.0 ACTIVE, 1.0 ACTIVE
        """,
    ),
    "a new resource manager: tasks run on": (
        PAIR,
        """
        begin = runs at 0.05
        leader resources = 2 x registerTaskExecutor 3195, registerJobMaster 1137, \
2 x sendSlotReport 2669, declareRequiredResources 1772
        status a0 = RUNNING #0
        run 1 = nothing
        slots = 0.0 ACTIVE, 1.0 ACTIVE
        """,
    ),
    "a new JobMaster: the old one is suspended": (
        PAIR,
        """
        begin = runs at 0.05
        leader job = registerJobMaster 1137, 2 x registerTaskManager 1571, \
declareRequiredResources 1772, 2 x offerSlots 2298, 2 x submitTask 15000, \
4 x updateTaskExecutionState 1675
        before = SUSPENDED
        status = RUNNING
        status a0 = RUNNING #1
        """,
    ),
    "a new JobMaster restores the last checkpoint": (
        PAIR,
        """
        begin = runs at 0.05
        trigger 4 = triggerCheckpoint 2144
        ack a0 4 = acknowledgeCheckpoint 1785
        ack b0 4 = acknowledgeCheckpoint 1785, 2 x confirmCheckpoint 1279
        leader job = registerJobMaster 1137, 2 x registerTaskManager 1571, \
declareRequiredResources 1772, 2 x offerSlots 2298, 2 x submitTask 15000, \
4 x updateTaskExecutionState 1675
        restores = checkpoint 4
        """,
    ),
    "one that is given up and lives registers anew": (
        PAIR,
        """
        begin = runs at 0.05
        unheard resources 1 = nothing
        unheard resources 1 = registerTaskExecutor 3195, sendSlotReport 2669
        status b0 = RUNNING #0
        unheard job 1 = nothing
        unheard job 1 = cancelTask 1341, declareRequiredResources 1772, \
updateTaskExecutionState 3852, registerTaskManager 1571, offerSlots 2298
        status = RESTARTING
        restart = 2 x submitTask 15000, 4 x updateTaskExecutionState 1675
        """,
    ),
    "a slot waits ten seconds for its JobMaster": (
        PAIR,
        """
        begin = runs at 0.05
        lose 0 = nothing
        slots = 0.0 ALLOCATED, 1.0 ACTIVE
        run 9 = nothing
        slots = 0.0 ALLOCATED, 1.0 ACTIVE
        idle 10.05 = yes
        slots = 0.0 FREE, 1.0 ACTIVE
        """,
    ),
}

TABLES = {"start": START, "ends": ENDS, "failures": FAILURES}
