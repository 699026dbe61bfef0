import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** A limit as a token bucket, full at first; those that share it are in this process. */
final class Bucket {

    private static final Map<String, Bucket> OF_OWNER = new ConcurrentHashMap<>();

    private final double perNs;
    private final double most;
    private double tokens;
    private long filledNs;

    private Bucket(JsonNode limit) {
        perNs = limit.get(0).asDouble() / 1e9;
        most = limit.get(1).asDouble();
        tokens = most;
    }

    /** The bucket of an owner, from tokens a second and the most that it holds; null: no limit. */
    static Bucket of(String owner, JsonNode limit) {
        return limit.isNull() ? null : OF_OWNER.computeIfAbsent(owner, key -> new Bucket(limit));
    }

    /** How many whole tokens a bucket gives of so many. */
    static int take(Bucket bucket, int wanted) {
        return bucket == null ? wanted : bucket.take(wanted);
    }

    private synchronized int take(int wanted) {
        long now = Clock.now();
        tokens = Math.min(most, tokens + (now - filledNs) * perNs);
        filledNs = now;
        int count = Math.min(wanted, (int) tokens);
        tokens -= count;
        return count;
    }
}
