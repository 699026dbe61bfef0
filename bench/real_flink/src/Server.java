import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.util.Collector;

/**
 * Takes the time of a record, then sends on what comes of it; a sink drops it, or hands it to its
 * writer.
 */
final class Server extends RichFlatMapFunction<byte[], byte[]> {

    /** Records processed so far by "stage/subtask"; all task managers share this process. */
    static final Map<String, AtomicLong> PROCESSED = new ConcurrentHashMap<>();

    /** The stage as JSON text: a tree of Jackson is not serialisable in every version. */
    private final String stated;

    private transient AtomicLong processed;
    private transient Latencies latencies;
    private transient Service service;
    private transient Records records;
    private transient boolean isSink;
    private transient boolean hasRequests;
    private transient boolean hasWindow;
    private transient long emitted;
    private transient long taken;
    private transient long numerator;
    private transient long denominator;

    Server(JsonNode stage) {
        stated = stage.toString();
    }

    @Override
    public void open(OpenContext context) throws Exception {
        JsonNode stage = new ObjectMapper().readTree(stated);
        String name = stage.get("name").asText();
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        processed = PROCESSED.computeIfAbsent(name + "/" + subtask, key -> new AtomicLong());
        latencies = Latencies.of(name, subtask);
        service = Stated.service(stage, subtask);
        records = new Records(stage);
        isSink = stage.get("is_sink").asBoolean();
        hasRequests = !stage.get("requests").isNull();
        hasWindow = !stage.get("window").isNull();
        numerator = stage.get("selectivity").get(0).asLong();
        denominator = stage.get("selectivity").get(1).asLong();
    }

    @Override
    public void flatMap(byte[] record, Collector<byte[]> out) throws InterruptedException {
        long stampNs = Records.stamp(record);
        if (isSink && stampNs >= 0) {
            latencies.add(Clock.now() - stampNs);
        }
        service.serve();
        processed.incrementAndGet();
        long fromNs = Clock.now();
        if (hasWindow) {
            out.collect(record);
        } else if (hasRequests) {
            out.collect(isSink ? record : records.make(stampNs, records.idOf(record)));
        } else if (!isSink) {
            taken++;
            // Whole records as they fall due, so that 2/3 is 0, 1, 1, 0, 1, 1 ...
            for (; emitted < Math.floorDiv(taken * numerator, denominator); emitted++) {
                out.collect(records.make(stampNs, records.idOf(record)));
            }
        }
        service.sent(fromNs);
    }
}
