import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.checkpoint.AbstractCheckpointStats;
import org.apache.flink.runtime.checkpoint.SubtaskStateStats;
import org.apache.flink.runtime.checkpoint.TaskStateStats;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.executiongraph.AccessExecutionJobVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Runs a chain of stages on a MiniCluster and writes Flink's own checkpoint statistics as JSON.
 *
 * <p>Arguments: the job and the file to write, both JSON. The job: "duration_s", "task_managers",
 * "slots" of each, "options" (Flink's own), "stages" in the order of the chain, each with "name",
 * "rates" (records/s of each subtask) and, the first one, "payload_bytes". Every edge is
 * rebalanced, every subtask has a slot of its own. With one slot a task manager, and several of
 * these, every channel crosses the network stack (Netty on loopback).
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
        Configuration options = options(job.get("options"));
        JobGraph graph = jobGraph(job.get("stages"), options);
        MiniClusterConfiguration cluster =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(options)
                        .setNumTaskManagers(job.get("task_managers").asInt())
                        .setNumSlotsPerTaskManager(job.get("slots").asInt())
                        .build();
        try (MiniCluster flink = new MiniCluster(cluster)) {
            flink.start();
            flink.submitJob(graph).get();
            long durationMs = Math.round(job.get("duration_s").asDouble() * 1000);
            long startMs = waitForRunning(flink, graph.getJobID());
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

    private static Configuration options(JsonNode stated) {
        Configuration options = new Configuration();
        // Free ports, loopback only, and all checkpoints kept in the history.
        options.setString("rest.bind-port", "0");
        options.setString("rest.address", "localhost");
        options.setString("taskmanager.host", "localhost");
        options.setString("web.checkpoints.history", "10000");
        options.setString("pipeline.operator-chaining.enabled", "false");
        options.setString("pipeline.auto-watermark-interval", "0");
        // A failure must end the measurement rather than begin another one.
        options.setString("restart-strategy.type", "none");
        // Persisted buffers go to memory: the disk of this machine is not what is measured.
        options.setString("execution.checkpointing.storage", "jobmanager");
        stated.fields().forEachRemaining(
                option -> options.setString(option.getKey(), option.getValue().asText()));
        return options;
    }

    private static JobGraph jobGraph(JsonNode stages, Configuration options) {
        StreamExecutionEnvironment flink =
                StreamExecutionEnvironment.getExecutionEnvironment(options);
        JsonNode first = stages.get(0);
        DataStream<byte[]> stream =
                flink.fromSource(
                                new PacedSource(rates(first), first.get("payload_bytes").asInt()),
                                WatermarkStrategy.noWatermarks(),
                                name(first))
                        .returns(byte[].class)
                        .setParallelism(first.get("rates").size())
                        // A group of its own: no slot is shared, no channel is local.
                        .slotSharingGroup(name(first));
        for (int i = 1; i < stages.size(); i++) {
            JsonNode stage = stages.get(i);
            boolean isLast = i == stages.size() - 1;
            stream = stream.rebalance()
                    .flatMap(new Server(name(stage), rates(stage), isLast))
                    .returns(byte[].class)
                    .name(name(stage))
                    .setParallelism(stage.get("rates").size())
                    .slotSharingGroup(name(stage));
        }
        return flink.getStreamGraph().getJobGraph();
    }

    private static String name(JsonNode stage) {
        return stage.get("name").asText();
    }

    private static double[] rates(JsonNode stage) {
        double[] rates = new double[stage.get("rates").size()];
        for (int i = 0; i < rates.length; i++) {
            rates[i] = stage.get("rates").get(i).asDouble();
        }
        return rates;
    }

    private static long waitForRunning(MiniCluster flink, JobID job) throws Exception {
        while (true) {
            AccessExecutionGraph graph = flink.getExecutionGraph(job).get();
            if (graph.getState().isTerminalState()) {
                throw new IllegalStateException(
                        "The job ended: " + graph.getFailureInfo().getExceptionAsString());
            }
            boolean isRunning = graph.getState() == JobStatus.RUNNING;
            for (AccessExecutionJobVertex vertex : graph.getVerticesTopologically()) {
                isRunning &= vertex.getAggregateState().name().equals("RUNNING");
            }
            if (isRunning) {
                return System.currentTimeMillis();
            }
            Thread.sleep(20);
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
