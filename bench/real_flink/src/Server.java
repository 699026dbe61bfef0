import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.util.Collector;

/**
 * Takes the time of a record, then sends on what comes of it; a sink drops it, or hands it to its
 * writer. What it keeps is how many records it has taken up and emitted, and as much as is stated.
 */
final class Server extends RichFlatMapFunction<byte[], byte[]> implements CheckpointedFunction {

    /** Records processed so far by "stage/subtask"; all task managers share this process. */
    static final Map<String, AtomicLong> PROCESSED = new ConcurrentHashMap<>();

    /** The stage as JSON text: a tree of Jackson is not serialisable in every version. */
    private final String stated;

    private transient AtomicLong processed;
    private transient Attempts attempt;
    private transient Latencies latencies;
    private transient Service service;
    private transient Records records;
    private transient boolean isSink;
    private transient boolean hasRequests;
    private transient boolean commits;
    private transient ValueState<byte[]> ofKey;
    private transient boolean hasWindow;
    private transient ListState<byte[]> kept;
    private transient JsonNode state;
    private transient long checkpoint;
    private transient long emitted;
    private transient long taken;
    private transient long numerator;
    private transient long denominator;

    Server(JsonNode stage) {
        stated = stage.toString();
    }

    @Override
    public void initializeState(FunctionInitializationContext context) throws Exception {
        state = new ObjectMapper().readTree(stated).get("state");
        checkpoint = context.getRestoredCheckpointId().orElse(-1);
        if (state.isNull()) {
            return;
        }
        kept = context.getOperatorStateStore().getListState(
                new ListStateDescriptor<>("kept", BytePrimitiveArraySerializer.INSTANCE));
        for (byte[] one : kept.get()) {
            ByteBuffer counts = ByteBuffer.wrap(one);
            taken = counts.getLong();
            emitted = counts.getLong();
        }
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) throws Exception {
        if (state.isNull()) {
            return;
        }
        long bytes = state.get("bytes").asLong() + state.get("bytes_per_record").asLong() * taken;
        byte[] own = new byte[(int) Math.max(2 * Long.BYTES, bytes)];
        ByteBuffer.wrap(own).putLong(taken).putLong(emitted);
        kept.update(List.of(own));
        Thread.sleep(state.get("sync_ms").asLong());
    }

    @Override
    public void open(OpenContext context) throws Exception {
        JsonNode stage = new ObjectMapper().readTree(stated);
        String name = stage.get("name").asText();
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        processed = PROCESSED.computeIfAbsent(name + "/" + subtask, key -> new AtomicLong());
        attempt = Attempts.begin(
                name + "/" + subtask, getRuntimeContext(), taken, emitted, checkpoint);
        latencies = Latencies.of(name, subtask);
        service = Stated.service(stage, subtask);
        records = new Records(stage);
        isSink = stage.get("is_sink").asBoolean();
        hasRequests = !stage.get("requests").isNull();
        commits = stage.get("commits").asBoolean();
        if (!state.isNull() && state.get("bytes_per_key").asLong() > 0) {
            ofKey = getRuntimeContext().getState(
                    new ValueStateDescriptor<>("key", BytePrimitiveArraySerializer.INSTANCE));
        }
        hasWindow = !stage.get("window").isNull();
        numerator = stage.get("selectivity").get(0).asLong();
        denominator = stage.get("selectivity").get(1).asLong();
    }

    @Override
    public void flatMap(byte[] record, Collector<byte[]> out) throws Exception {
        taken++;
        attempt.taken();
        long stampNs = Records.stamp(record);
        if (isSink && stampNs >= 0) {
            latencies.add(Clock.now() - stampNs);
        }
        service.serve();
        processed.incrementAndGet();
        long fromNs = Clock.now();
        if (ofKey != null && ofKey.value() == null) {
            ofKey.update(new byte[state.get("bytes_per_key").asInt()]);
        }
        if (hasWindow || commits) {
            out.collect(record);
        } else if (hasRequests) {
            out.collect(isSink ? record : records.make(stampNs, records.idOf(record)));
        } else if (!isSink) {
            // Whole records as they fall due, so that 2/3 is 0, 1, 1, 0, 1, 1 ...
            for (; emitted < Math.floorDiv(taken * numerator, denominator); emitted++) {
                out.collect(records.make(stampNs, records.idOf(record)));
                attempt.emitted();
            }
        }
        service.sent(fromNs);
    }
}
