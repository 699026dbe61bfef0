import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.executiongraph.AccessExecutionJobVertex;
import org.apache.flink.runtime.minicluster.MiniCluster;

/** Waits for a job, and says why it ended if it did. */
final class Running {

    private Running() {}

    /** Returns when all tasks run. */
    static void await(MiniCluster flink, JobID job) throws Exception {
        while (true) {
            AccessExecutionGraph graph = check(flink, job);
            boolean isRunning = graph.getState() == JobStatus.RUNNING;
            for (AccessExecutionJobVertex vertex : graph.getVerticesTopologically()) {
                isRunning &= vertex.getAggregateState().name().equals("RUNNING");
            }
            if (isRunning) {
                return;
            }
            Thread.sleep(20);
        }
    }

    /** Returns as the second checkpoint is triggered, so that the next one is an interval later. */
    static void awaitCheckpoints(MiniCluster flink, JobID job) throws Exception {
        while (check(flink, job).getCheckpointStatsSnapshot().getCounts()
                .getTotalNumberOfCheckpoints() < 2) {
            Thread.sleep(2);
        }
    }

    /** The job; an IllegalStateException says why it ended. */
    static AccessExecutionGraph check(MiniCluster flink, JobID job) throws Exception {
        AccessExecutionGraph graph = flink.getExecutionGraph(job).get();
        if (graph.getState().isTerminalState()) {
            throw new IllegalStateException(
                    "The job ended: " + graph.getFailureInfo().getExceptionAsString());
        }
        return graph;
    }
}
