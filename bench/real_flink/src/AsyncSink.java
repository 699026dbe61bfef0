import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.connector.base.sink.writer.AsyncSinkWriter;
import org.apache.flink.connector.base.sink.writer.AsyncSinkWriterStateSerializer;
import org.apache.flink.connector.base.sink.writer.BufferedRequestState;
import org.apache.flink.connector.base.sink.writer.ResultHandler;
import org.apache.flink.connector.base.sink.writer.config.AsyncSinkWriterConfiguration;
import org.apache.flink.connector.base.sink.writer.strategy.AIMDScalingStrategy;
import org.apache.flink.connector.base.sink.writer.strategy.CongestionControlRateLimitingStrategy;
import org.apache.flink.connector.base.sink.writer.strategy.NoOpScalingStrategy;
import org.apache.flink.connector.base.sink.writer.strategy.RateLimitingStrategy;
import org.apache.flink.connector.base.sink.writer.strategy.RequestInfo;
import org.apache.flink.connector.base.sink.writer.strategy.ResultInfo;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/** Flink's asynchronous sink in front of a destination. */
final class AsyncSink extends FlinkSink {

    /** The stage as JSON text: a tree of Jackson is not serialisable in every version. */
    private final String stated;

    AsyncSink(JsonNode stage) {
        super(stage.get("requests"));
        stated = stage.toString();
    }

    @Override
    public Writer createWriter(WriterInitContext context) throws IOException {
        return restoreWriter(context, Collections.emptyList());
    }

    @Override
    public Writer restoreWriter(
            WriterInitContext context, Collection<BufferedRequestState<byte[]>> states)
            throws IOException {
        JsonNode stage = new ObjectMapper().readTree(stated);
        int subtask = context.getTaskInfo().getIndexOfThisSubtask();
        Sending sending = Sending.of(stage.get("name").asText(), subtask);
        return new Writer(this, context, stage, subtask, sending, states);
    }

    @Override
    public AsyncSinkWriterStateSerializer<byte[]> getWriterStateSerializer() {
        return new Serializer();
    }

    /** Hands requests to the destination. */
    static final class Writer extends AsyncSinkWriter<byte[], byte[]> {

        private final Destination destination;
        private final Sending sending;

        Writer(
                AsyncSink sink,
                WriterInitContext context,
                JsonNode stage,
                int subtask,
                Sending sending,
                Collection<BufferedRequestState<byte[]>> states) {
            super(
                    sink.getElementConverter(),
                    context,
                    AsyncSinkWriterConfiguration.builder()
                            .setMaxBatchSize(sink.getMaxBatchSize())
                            .setMaxBatchSizeInBytes(sink.getMaxBatchSizeInBytes())
                            .setMaxInFlightRequests(sink.getMaxInFlightRequests())
                            .setMaxBufferedRequests(sink.getMaxBufferedRequests())
                            .setMaxTimeInBufferMS(sink.getMaxTimeInBufferMS())
                            .setMaxRecordSizeInBytes(sink.getMaxRecordSizeInBytes())
                            .setRequestTimeoutMS(sink.getRequestTimeoutMS())
                            .setFailOnTimeout(sink.getFailOnTimeout())
                            .setRateLimitingStrategy(
                                    new Watched(limiting(stage.get("requests")), sending))
                            .build(),
                    states);
            this.sending = sending;
            destination = new Destination(stage, subtask, sending);
        }

        @Override
        protected void submitRequestEntries(List<byte[]> entries, ResultHandler<byte[]> handler) {
            long bytes = entries.stream().mapToLong(Records::bytes).sum();
            destination.submit(entries.size(), bytes, failed -> {
                sending.acknowledged(entries.size() - failed.cardinality());
                List<byte[]> again = new ArrayList<>();
                failed.stream().forEach(place -> again.add(entries.get(place)));
                handler.retryForEntries(again);
            });
        }

        @Override
        protected long getSizeInBytes(byte[] record) {
            return Records.bytes(record);
        }

        /** Flink's own congestion control; without any, all batches may be in flight. */
        private static RateLimitingStrategy limiting(JsonNode stated) {
            JsonNode window = stated.get("window");
            return CongestionControlRateLimitingStrategy.builder()
                    .setMaxInFlightRequests(stated.get("in_flight").asInt())
                    .setInitialMaxInFlightMessages(
                            window.isNull() ? Integer.MAX_VALUE : window.get("initial").asInt())
                    .setScalingStrategy(
                            window.isNull()
                                    ? new NoOpScalingStrategy<>()
                                    : AIMDScalingStrategy.builder(window.get("threshold").asInt())
                                            .setIncreaseRate(window.get("increase").asInt())
                                            .setDecreaseFactor(window.get("decrease").asDouble())
                                            .build())
                    .build();
        }
    }

    /** Notes on the task's thread what Flink tells its strategy. */
    private static final class Watched implements RateLimitingStrategy {

        private final RateLimitingStrategy own;
        private final Sending sending;

        Watched(RateLimitingStrategy own, Sending sending) {
            this.own = own;
            this.sending = sending;
        }

        @Override
        public void registerInFlightRequest(RequestInfo request) {
            own.registerInFlightRequest(request);
            sending.fly(1);
        }

        @Override
        public void registerCompletedRequest(ResultInfo result) {
            own.registerCompletedRequest(result);
            sending.answered(result.getFailedMessages(), own.getMaxBatchSize());
        }

        @Override
        public boolean shouldBlock(RequestInfo request) {
            return own.shouldBlock(request);
        }

        @Override
        public int getMaxBatchSize() {
            return own.getMaxBatchSize();
        }
    }

    private static final class Serializer extends AsyncSinkWriterStateSerializer<byte[]> {

        @Override
        protected void serializeRequestToStream(byte[] record, DataOutputStream out)
                throws IOException {
            out.write(record);
        }

        @Override
        protected byte[] deserializeRequestFromStream(long size, DataInputStream in)
                throws IOException {
            return in.readNBytes((int) size - Records.OVERHEAD_BYTES);
        }

        @Override
        public int getVersion() {
            return 1;
        }
    }
}
