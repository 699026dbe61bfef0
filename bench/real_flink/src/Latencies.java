import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/** What the sinks see of the age of records, by subtask; all task managers share this process. */
final class Latencies {

    private static final Map<String, Latencies> OF_SUBTASK = new ConcurrentHashMap<>();

    private long[] seenNs = new long[1024];
    private int count;

    private Latencies() {}

    static Latencies of(String stage, int subtask) {
        return OF_SUBTASK.computeIfAbsent(stage + "/" + subtask, key -> new Latencies());
    }

    synchronized void add(long ns) {
        if (count == seenNs.length) {
            seenNs = Arrays.copyOf(seenNs, 2 * count);
        }
        seenNs[count++] = ns;
    }

    /** Figures of what was added since the last call, by subtask; those that saw none are out. */
    static Map<String, Map<String, Object>> take() {
        Map<String, Map<String, Object>> found = new TreeMap<>();
        OF_SUBTASK.forEach((name, latencies) -> {
            long[] taken = latencies.drain();
            if (taken.length > 0) {
                found.put(name, figures(taken));
            }
        });
        return found;
    }

    private synchronized long[] drain() {
        long[] taken = Arrays.copyOf(seenNs, count);
        count = 0;
        return taken;
    }

    private static Map<String, Object> figures(long[] ns) {
        Arrays.sort(ns);
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("count", ns.length);
        row.put("mean_ms", Arrays.stream(ns).average().getAsDouble() / 1e6);
        row.put("p50_ms", rank(ns, 0.5));
        row.put("p90_ms", rank(ns, 0.9));
        row.put("p99_ms", rank(ns, 0.99));
        row.put("max_ms", ns[ns.length - 1] / 1e6);
        return row;
    }

    private static double rank(long[] sorted, double share) {
        return sorted[(int) Math.ceil(share * sorted.length) - 1] / 1e6;
    }
}
