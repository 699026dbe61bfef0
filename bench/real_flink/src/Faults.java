import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecution;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.executiongraph.AccessExecutionJobVertex;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** Has planned failures and savepoints happen, and notes what becomes of the tasks and of what waits for them. */
final class Faults {

    private static final long EVERY_NS = TimeUnit.MILLISECONDS.toNanos(10);

    /** Subtask, when it began again, what it had emitted then and before, and by which checkpoint. */
    private static final List<Object[]> RESTORED = new CopyOnWriteArrayList<>();

    private static final List<Object[]> SAMPLES = new ArrayList<>();

    private Faults() {}

    /** Begins to look, to fail what is planned, and to ask for savepoints. */
    static void plan(JsonNode job, MiniCluster flink, JobID id) {
        start(() -> sample());
        start(() -> fail(job.get("failures"), flink));
        start(() -> save(job.get("savepoints"), flink, id, job.get("folder").asText()));
    }

    private static void start(Runnable what) {
        Thread thread = new Thread(what);
        thread.setDaemon(true);
        thread.start();
    }

    /** Notes that a subtask goes on from a checkpoint, or from its beginning: -1. */
    static void restored(String name, long before, long emitted, long checkpoint) {
        RESTORED.add(new Object[] {name, Clock.seconds(), before, emitted, checkpoint});
    }

    private static void sample() {
        for (long due = 0; ; due += EVERY_NS) {
            LockSupport.parkNanos(due - Clock.now());
            Map<String, long[]> figures = new LinkedHashMap<>();
            Attempts.OF_SUBTASK.forEach((name, own) -> figures.put(name, own.figures()));
            synchronized (SAMPLES) {
                SAMPLES.add(new Object[] {Clock.seconds(), figures.values()});
            }
        }
    }

    private static void fail(JsonNode planned, MiniCluster flink) {
        for (JsonNode one : planned) {
            await(one);
            if (one.get("task_manager").isNull()) {
                Attempts.OF_SUBTASK.get(one.get("subtask").asText()).fail();
            } else {
                Cluster.replace(flink, one.get("task_manager").asInt());
            }
        }
    }

    private static void save(JsonNode planned, MiniCluster flink, JobID id, String folder) {
        for (JsonNode one : planned) {
            await(one);
            if (one.get("stop").asBoolean()) {
                flink.stopWithSavepoint(id, folder, false, SavepointFormatType.CANONICAL);
            } else {
                flink.triggerSavepoint(id, folder, false, SavepointFormatType.CANONICAL);
            }
        }
    }

    private static void await(JsonNode planned) {
        long dueNs = (long) (planned.get("at_s").asDouble() * 1e9);
        while (Clock.now() < dueNs) {
            LockSupport.parkNanos(dueNs - Clock.now());
        }
    }

    /** All that is known when a job has run. */
    static Map<String, Object> found(AccessExecutionGraph graph) {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("subtasks", Attempts.OF_SUBTASK.keySet());
        found.put("attempts", attempts(graph));
        found.put("restored", RESTORED);
        synchronized (SAMPLES) {
            found.put("samples", new ArrayList<>(SAMPLES));
        }
        found.put("commits", Visible.commits());
        boolean hasFailed = graph.getState() == JobStatus.FAILED;
        found.put("failed_ms", hasFailed ? graph.getStatusTimestamp(JobStatus.FAILED) : null);
        return found;
    }

    /** When each attempt was made, ran and ended, by vertex and subtask; ms since 1970, 0: never. */
    private static Map<String, List<long[]>> attempts(AccessExecutionGraph graph) {
        Map<String, List<long[]>> found = new LinkedHashMap<>();
        for (AccessExecutionJobVertex vertex : graph.getVerticesTopologically()) {
            for (AccessExecutionVertex one : vertex.getTaskVertices()) {
                List<long[]> own = new ArrayList<>();
                one.getExecutionHistory().getHistoricalExecutions().forEach(
                        attempt -> own.add(times(attempt)));
                own.add(times(one.getCurrentExecutionAttempt()));
                found.put(vertex.getName() + "/" + one.getParallelSubtaskIndex(), own);
            }
        }
        return found;
    }

    private static long[] times(AccessExecution attempt) {
        long ended = 0;
        for (ExecutionState state : ExecutionState.values()) {
            ended = state.isTerminal() ? Math.max(ended, attempt.getStateTimestamp(state)) : ended;
        }
        return new long[] {
            attempt.getStateTimestamp(ExecutionState.CREATED),
            attempt.getStateTimestamp(ExecutionState.RUNNING),
            ended
        };
    }
}
