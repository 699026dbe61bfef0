import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Counts what a subtask sends and what is answered; all task managers share this process. */
final class Sending {

    private static final Map<String, Sending> OF_SUBTASK = new ConcurrentHashMap<>();

    private long requests;
    private long records;
    private long acknowledged;
    private long failed;
    private long failedRequests;
    private long throttled;
    private int inFlight;
    private int window;
    /** Sum of the times of all requests so far, and up to when it counts those in flight. */
    private long flownNs;
    private long untilNs;
    private long answers;
    private long sampledNs;
    private long sampledAnswers;

    static Sending of(String stage, int subtask) {
        return OF_SUBTASK.computeIfAbsent(stage + "/" + subtask, key -> new Sending());
    }

    synchronized void sent(int count, int throttled) {
        requests++;
        records += count;
        this.throttled += throttled;
    }

    /** Counts requests that are in flight from now on, or, below 0, no longer. */
    synchronized void fly(int more) {
        long now = Clock.now();
        flownNs += inFlight * (now - untilNs);
        untilNs = now;
        inFlight += more;
    }

    synchronized void answered(int failed, int window) {
        fly(-1);
        answers++;
        this.failed += failed;
        failedRequests += failed > 0 ? 1 : 0;
        this.window = window;
    }

    synchronized void acknowledged(int count) {
        acknowledged += count;
    }

    /** Rows of the table requests, by subtask. */
    static Map<String, Map<String, Object>> take() {
        Map<String, Map<String, Object>> rows = new LinkedHashMap<>();
        OF_SUBTASK.forEach((name, sending) -> rows.put(name, sending.row()));
        return rows;
    }

    private synchronized Map<String, Object> row() {
        fly(0);
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("in_flight", inFlight);
        row.put("window", window > 0 ? window : null);
        row.put("requests", requests);
        row.put("requests_failed", failedRequests);
        row.put("records_sent", records);
        row.put("records_acknowledged", acknowledged);
        row.put("records_retried", failed);
        row.put("records_throttled", throttled);
        long count = answers - sampledAnswers;
        row.put("latency_mean_ms", count > 0 ? (flownNs - sampledNs) / 1e6 / count : null);
        sampledNs = flownNs;
        sampledAnswers = answers;
        return row;
    }
}
