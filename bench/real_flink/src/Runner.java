import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.checkpoint.AbstractCheckpointStats;
import org.apache.flink.runtime.checkpoint.SubtaskStateStats;
import org.apache.flink.runtime.checkpoint.TaskStateStats;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.executiongraph.AccessExecutionJobVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Runs a job on Flink and writes Flink's own checkpoint statistics as JSON.
 *
 * <p>Arguments: the job, with its "duration_s", and the file to write, both JSON.
 */
public final class Runner {

    private static final ObjectMapper JSON = new ObjectMapper();

    private Runner() {}

    public static void main(String[] arguments) throws Exception {
        JsonNode job = JSON.readTree(new File(arguments[0]));
        Map<String, Object> measured = measure(job);
        JSON.writerWithDefaultPrettyPrinter().writeValue(new File(arguments[1]), measured);
        // Flink's own threads would keep the process for a while.
        System.exit(0);
    }

    private static Map<String, Object> measure(JsonNode job) throws Exception {
        Configuration options = Options.of(job.get("options"));
        JobGraph graph = Topology.of(job, job.get("jobs").get(0), options);
        try (MiniCluster flink =
                Cluster.start(options, job.get("slots"), job.get("are_placed").asBoolean())) {
            flink.submitJob(graph).get();
            long durationMs = Math.round(job.get("duration_s").asDouble() * 1000);
            Running.await(flink, graph.getJobID());
            Clock.start();
            long startMs = System.currentTimeMillis();
            Thread.sleep(Math.max(0, startMs + durationMs / 2 - System.currentTimeMillis()));
            Map<String, Long> half = processed();
            long halfNs = System.nanoTime();
            Thread.sleep(Math.max(0, startMs + durationMs - System.currentTimeMillis()));
            double seconds = (System.nanoTime() - halfNs) / 1e9;
            Map<String, Double> rates = new TreeMap<>();
            processed().forEach((name, count) ->
                    rates.put(name, (count - half.getOrDefault(name, 0L)) / seconds));

            Map<String, Object> measured = new TreeMap<>();
            measured.put("flink", EnvironmentInformation.getVersion());
            measured.put("java", System.getProperty("java.version"));
            measured.put("records_per_s", rates);
            measured.put("checkpoints",
                    checkpoints(flink.getExecutionGraph(graph.getJobID()).get(), startMs));
            flink.cancelJob(graph.getJobID()).get();
            return measured;
        }
    }

    private static Map<String, Long> processed() {
        Map<String, Long> counts = new HashMap<>();
        for (Map.Entry<String, AtomicLong> entry : Server.PROCESSED.entrySet()) {
            counts.put(entry.getKey(), entry.getValue().get());
        }
        return counts;
    }

    /** Completed checkpoints, oldest first, with what each subtask reported. */
    private static List<Map<String, Object>> checkpoints(AccessExecutionGraph graph, long startMs) {
        List<Map<String, Object>> rows = new ArrayList<>();
        for (AbstractCheckpointStats stats :
                graph.getCheckpointStatsSnapshot().getHistory().getCheckpoints()) {
            if (!stats.getStatus().isCompleted()) {
                continue;
            }
            List<Map<String, Object>> tasks = new ArrayList<>();
            for (AccessExecutionJobVertex vertex : graph.getVerticesTopologically()) {
                TaskStateStats task = stats.getTaskStateStats(vertex.getJobVertexId());
                for (SubtaskStateStats subtask : task.getSubtaskStats()) {
                    tasks.add(row(vertex.getName(), subtask, stats.getTriggerTimestamp()));
                }
            }
            Map<String, Object> row = new TreeMap<>();
            row.put("checkpoint_id", stats.getCheckpointId());
            row.put("triggered_s", (stats.getTriggerTimestamp() - startMs) / 1000.0);
            row.put("e2e_ms", stats.getEndToEndDuration());
            row.put("processed_bytes", stats.getProcessedData());
            row.put("persisted_bytes", stats.getPersistedData());
            row.put("state_bytes", stats.getStateSize());
            row.put("tasks", tasks);
            rows.add(0, row);
        }
        return rows;
    }

    private static Map<String, Object> row(
            String vertex, SubtaskStateStats subtask, long triggered) {
        Map<String, Object> row = new TreeMap<>();
        // Flink names the vertex of a source "Source: name".
        row.put("stage", vertex.replaceFirst("^Source: ", ""));
        row.put("subtask", subtask.getSubtaskIndex());
        row.put("e2e_ms", subtask.getEndToEndDuration(triggered));
        row.put("start_delay_ms", subtask.getCheckpointStartDelay());
        row.put("alignment_ms", subtask.getAlignmentDuration());
        row.put("sync_ms", subtask.getSyncCheckpointDuration());
        row.put("async_ms", subtask.getAsyncCheckpointDuration());
        row.put("processed_bytes", subtask.getProcessedData());
        row.put("persisted_bytes", subtask.getPersistedData());
        row.put("state_bytes", subtask.getStateSize());
        row.put("unaligned", subtask.getUnalignedCheckpoint());
        return row;
    }
}
