import java.util.BitSet;
import java.util.Random;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * What answers the requests of a subtask: a timer of this process, so that no network adds to the
 * latency. What exceeds a limit fails with the answer, and so does what is drawn.
 */
final class Destination {

    private static final ScheduledThreadPoolExecutor TIMER =
            new ScheduledThreadPoolExecutor(1, task -> {
                Thread thread = new Thread(task, "destination");
                thread.setDaemon(true);
                return thread;
            });

    private final JsonNode stated;
    private final Bucket requests;
    private final Bucket records;
    private final Work work;
    private final Random random;
    private final Sending sending;

    Destination(JsonNode stage, int subtask, Sending sending) {
        this.sending = sending;
        stated = stage.get("requests");
        String name = stage.get("name").asText();
        String owner = stated.get("shares_limit").asBoolean() ? name : name + "/" + subtask;
        requests = Bucket.of(owner + " requests", stated.get("requests_limit"));
        records = Bucket.of(owner + " records", stated.get("records_limit"));
        work = new Work(stated, subtask);
        random = new Random(37 * stated.get("seed").asLong() + subtask);
    }

    /** Takes a request, and answers with the places of the records that failed. */
    void submit(int count, long bytes, Consumer<BitSet> answer) {
        int passed = Bucket.take(requests, 1) == 0 ? 0 : Bucket.take(records, count);
        sending.sent(count, count - passed);
        BitSet failed = new BitSet(count);
        failed.set(isDrawn("request_errors") ? 0 : passed, count);
        for (int i = 0; i < count; i++) {
            if (isDrawn("record_errors")) {
                failed.set(i);
            }
        }
        double us = work.next() * meanUs()
                + count * stated.get("record_us").asDouble()
                + bytes / 1000.0 * stated.get("kb_us").asDouble();
        TIMER.schedule(() -> answer.accept(failed), Math.round(us), TimeUnit.MICROSECONDS);
    }

    /** Whether something happens whose share is stated. */
    boolean isDrawn(String share) {
        double stated = this.stated.get(share).asDouble();
        return stated > 0 && random.nextDouble() < stated;
    }

    private double meanUs() {
        double found = 0;
        for (JsonNode phase : stated.get("latency")) {
            if (phase.get(0).asDouble() <= Clock.now() / 1e3) {
                found = phase.get(1).asDouble();
            }
        }
        return found;
    }
}
