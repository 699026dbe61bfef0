import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Runs a scenario on Flink until its standard input ends. Arguments: its jobs, and where the latencies
 * and requests that its stages saw go, their windows, and how late the machine was, both JSON. When
 * all tasks run it prints where its REST endpoint is.
 */
public final class ScenarioRun {

    private static final ObjectMapper JSON = new ObjectMapper();

    private ScenarioRun() {}

    public static void main(String[] arguments) throws Exception {
        JsonNode job = JSON.readTree(new File(arguments[0]));
        Configuration options = Options.of(job.get("options"));
        try (MiniCluster flink =
                Cluster.start(options, job.get("slots"), job.get("are_placed").asBoolean())) {
            Jobs jobs = new Jobs(flink, job, options);
            JobGraph graph = jobs.first();
            jobs.begin();
            boolean isWatched = job.get("is_watched").asBoolean();
            if (isWatched && job.get("has_intervals").asBoolean()) {
                Running.awaitCheckpoints(flink, graph.getJobID());
            }
            Pulse.start();
            Clock.start();
            jobs.follow();
            if (isWatched) {
                Faults.plan(job, flink, graph.getJobID());
            }
            Map<String, Object> started = new LinkedHashMap<>();
            started.put("rest", flink.getRestAddress().get().toString());
            started.put("jobs", jobs.ids());
            started.put("start_ms", System.currentTimeMillis());
            started.put("flink", EnvironmentInformation.getVersion());
            started.put("java", System.getProperty("java.version"));
            System.out.println(JSON.writeValueAsString(started));
            Map<String, Object> seen = new LinkedHashMap<>(sample(job.get("sample_s").asDouble()));
            seen.put("results", WindowFigures.results());
            seen.put("late_ms", Pulse.lateMs());
            seen.put("latest_ms", Pulse.latestMs());
            AccessExecutionGraph last = flink.getExecutionGraph(graph.getJobID()).get();
            seen.put("faults", isWatched ? Faults.found(last) : Map.of());
            JSON.writeValue(new File(arguments[1]), seen);
            boolean mayEnd = job.get("jobs").size() > 1 || job.get("failures").size() > 0;
            if (!mayEnd && last.getState() != JobStatus.FINISHED) {
                Running.check(flink, graph.getJobID());
            }
            jobs.end();
        }
        // Flink's own threads would keep the process for a while.
        System.exit(0);
    }

    /** Takes the latencies and the requests of each sample until standard input ends. */
    private static Map<String, List<Map<String, Object>>> sample(double everyS) throws Exception {
        List<Map<String, Object>> latencies = new ArrayList<>();
        List<Map<String, Object>> requests = new ArrayList<>();
        List<Map<String, Object>> windows = new ArrayList<>();
        List<Map<String, Object>> pauses = new ArrayList<>();
        Thread reader = new Thread(ScenarioRun::readToEnd);
        reader.start();
        for (int k = 1; reader.isAlive(); k++) {
            reader.join(Math.max(1, Math.round((k * everyS - Clock.seconds()) * 1000)));
            double at = Clock.seconds();
            add(latencies, at, Latencies.take());
            add(requests, at, Sending.take());
            add(windows, at, WindowFigures.take());
            add(pauses, at, Pauses.take());
        }
        return Map.of(
                "latencies", latencies, "requests", requests, "windows", windows, "pauses", pauses);
    }

    private static void add(
            List<Map<String, Object>> rows, double at, Map<String, Map<String, Object>> found) {
        found.forEach((name, figures) -> {
            int slash = name.lastIndexOf('/');
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("t_s", at);
            row.put("stage", name.substring(0, slash));
            row.put("subtask", Integer.parseInt(name.substring(slash + 1)));
            row.putAll(figures);
            rows.add(row);
        });
    }

    private static void readToEnd() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            while (input.readLine() != null) {}
        } catch (java.io.IOException gone) {
            // Nobody is there any more, which is an end too.
        }
    }
}
