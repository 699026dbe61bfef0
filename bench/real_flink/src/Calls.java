import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.functions.async.AsyncRetryStrategy;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;
import org.apache.flink.streaming.util.retryable.AsyncRetryStrategies.ExponentialBackoffDelayRetryStrategyBuilder;

/**
 * Calls the destination for each record; a record goes on when it is answered. One whose last call
 * failed, or timed out, goes on too: Flink's default would fail the job.
 */
final class Calls extends RichAsyncFunction<byte[], byte[]> {

    /** The stage as JSON text: a tree of Jackson is not serialisable in every version. */
    private final String stated;

    private transient Destination destination;
    private transient Sending sending;
    /** Records that are neither answered nor timed out, each by itself. */
    private transient Set<byte[]> waiting;

    private Calls(JsonNode stage) {
        stated = stage.toString();
    }

    /** Flink's operator behind a stage. */
    static SingleOutputStreamOperator<byte[]> behind(
            SingleOutputStreamOperator<byte[]> stream, JsonNode stage) {
        JsonNode own = stage.get("requests");
        Calls calls = new Calls(stage);
        long timeoutMs = own.get("timeout_ms").asLong();
        int capacity = own.get("in_flight").asInt();
        boolean isOrdered = own.get("ordered").asBoolean();
        TimeUnit ms = TimeUnit.MILLISECONDS;
        if (own.get("retry").isNull()) {
            return isOrdered
                    ? AsyncDataStream.orderedWait(stream, calls, timeoutMs, ms, capacity)
                    : AsyncDataStream.unorderedWait(stream, calls, timeoutMs, ms, capacity);
        }
        AsyncRetryStrategy<byte[]> retry = retry(own.get("retry"));
        return isOrdered
                ? AsyncDataStream.orderedWaitWithRetry(
                        stream, calls, timeoutMs, ms, capacity, retry)
                : AsyncDataStream.unorderedWaitWithRetry(
                        stream, calls, timeoutMs, ms, capacity, retry);
    }

    /** A constant delay is one that grows by the factor 1. */
    private static AsyncRetryStrategy<byte[]> retry(JsonNode stated) {
        ExponentialBackoffDelayRetryStrategyBuilder<byte[]> found =
                new ExponentialBackoffDelayRetryStrategyBuilder<>(
                        stated.get("attempts").asInt(),
                        stated.get("delay_ms").asLong(),
                        stated.get("max_delay_ms").asLong(),
                        stated.get("multiplier").asDouble());
        List<String> repeated = new ArrayList<>();
        stated.get("when").forEach(outcome -> repeated.add(outcome.asText()));
        found.ifResult(new Repeated(repeated));
        return found.build();
    }

    @Override
    public void open(OpenContext context) throws Exception {
        JsonNode stage = new ObjectMapper().readTree(stated);
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        sending = Sending.of(stage.get("name").asText(), subtask);
        destination = new Destination(stage, subtask, sending);
        waiting = Collections.synchronizedSet(Collections.newSetFromMap(new IdentityHashMap<>()));
    }

    @Override
    public void asyncInvoke(byte[] record, ResultFuture<byte[]> future) {
        sending.fly(1);
        waiting.add(record);
        destination.submit(1, Records.bytes(record), failed -> {
            boolean isEmpty = failed.isEmpty() && destination.isDrawn("empty_answers");
            boolean isDone = failed.isEmpty() && !isEmpty;
            if (waiting.remove(record)) {
                sending.answered(isDone ? 0 : 1, 0);
                sending.acknowledged(isDone ? 1 : 0);
            }
            String outcome = isDone ? "" : isEmpty ? "empty" : "error";
            future.complete(new Answer(isEmpty ? null : record, outcome));
        });
    }

    @Override
    public void timeout(byte[] record, ResultFuture<byte[]> future) {
        if (waiting.remove(record)) {
            sending.answered(1, 0);
        }
        future.complete(new Answer(record, "error"));
    }

    /** The result of a call, and why it may be repeated. */
    private static final class Answer extends ArrayList<byte[]> {

        private final String outcome;

        Answer(byte[] record, String outcome) {
            this.outcome = outcome;
            if (record != null) {
                add(record);
            }
        }
    }

    private static final class Repeated
            implements Predicate<Collection<byte[]>>, java.io.Serializable {

        private final List<String> outcomes;

        Repeated(List<String> outcomes) {
            this.outcomes = outcomes;
        }

        @Override
        public boolean test(Collection<byte[]> result) {
            return outcomes.contains(((Answer) result).outcome);
        }
    }
}
