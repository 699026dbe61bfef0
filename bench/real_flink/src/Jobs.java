import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** The jobs of a scenario on one cluster: each is submitted and cancelled at its time. */
final class Jobs {

    private final MiniCluster flink;
    private final List<JsonNode> spans = new ArrayList<>();
    private final List<JobGraph> graphs = new ArrayList<>();

    Jobs(MiniCluster flink, JsonNode job, Configuration options) {
        this.flink = flink;
        for (JsonNode span : job.get("jobs")) {
            spans.add(span);
            graphs.add(Topology.of(job, span, options));
        }
    }

    /** Submits those that are there from the beginning, and returns when all their tasks run. */
    void begin() throws Exception {
        for (int i = 0; i < graphs.size(); i++) {
            if (spans.get(i).get("start_s").asDouble() == 0) {
                flink.submitJob(graphs.get(i)).get();
                Running.await(flink, graphs.get(i).getJobID());
            }
        }
    }

    /** Submits and cancels the others when the clock says so. */
    void follow() {
        for (int i = 0; i < graphs.size(); i++) {
            JobGraph graph = graphs.get(i);
            JsonNode start = spans.get(i).get("start_s");
            JsonNode stop = spans.get(i).get("stop_s");
            if (start.asDouble() > 0) {
                at(start, () -> flink.submitJob(graph));
            }
            if (!stop.isNull()) {
                at(stop, () -> flink.cancelJob(graph.getJobID()));
            }
        }
    }

    private static void at(JsonNode seconds, Runnable what) {
        Thread thread = new Thread(() -> {
            long dueNs = (long) (seconds.asDouble() * TimeUnit.SECONDS.toNanos(1));
            while (Clock.now() < dueNs) {
                LockSupport.parkNanos(dueNs - Clock.now());
            }
            what.run();
        });
        thread.setDaemon(true);
        thread.start();
    }

    JobGraph first() {
        return graphs.get(0);
    }

    List<String> ids() {
        List<String> found = new ArrayList<>();
        graphs.forEach(graph -> found.add(graph.getJobID().toString()));
        return found;
    }

    /** Cancels what still runs. */
    void end() throws Exception {
        for (JobGraph graph : graphs) {
            AccessExecutionGraph last = flink.getExecutionGraph(graph.getJobID()).get();
            if (!last.getState().isTerminalState()) {
                flink.cancelJob(graph.getJobID()).get();
            }
        }
    }
}
