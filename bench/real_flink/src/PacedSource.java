import java.util.List;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Emits byte arrays, each subtask at a rate of its own; without splits each reader begins by itself.
 *
 * <p>Without arrivals, what falls due while the task is back-pressured is lost, as in the emulation.
 * With arrivals it reads a log, which keeps what it has not read, one record after the other.
 */
final class PacedSource implements Source<byte[], PacedSource.NoSplit, byte[]> {

    /** The stage as JSON text: a tree of Jackson is not serialisable in every version. */
    private final String stated;

    PacedSource(JsonNode stage) {
        stated = stage.toString();
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<byte[], NoSplit> createReader(SourceReaderContext context)
            throws Exception {
        JsonNode stage = new ObjectMapper().readTree(stated);
        if (!stage.get("watermark").isNull()) {
            Pauses.watch(stage.get("name").asText(), context);
        }
        return stage.get("arrivals").isNull()
                ? new PacedReader(stage, context.getIndexOfSubtask())
                : new LogReader(stage, context);
    }

    /** Never made: Flink only asks for the type. */
    static final class NoSplit implements SourceSplit {
        @Override
        public String splitId() {
            return "none";
        }
    }

    @Override
    public SplitEnumerator<NoSplit, byte[]> createEnumerator(
            SplitEnumeratorContext<NoSplit> context) {
        return new SplitEnumerator<>() {
            @Override
            public void start() {}

            @Override
            public void handleSplitRequest(int subtask, String host) {}

            @Override
            public void addSplitsBack(List<NoSplit> splits, int subtask) {}

            @Override
            public void addReader(int subtask) {}

            @Override
            public byte[] snapshotState(long checkpointId) {
                return new byte[0];
            }

            @Override
            public void close() {}
        };
    }

    @Override
    public SplitEnumerator<NoSplit, byte[]> restoreEnumerator(
            SplitEnumeratorContext<NoSplit> context, byte[] state) {
        return createEnumerator(context);
    }

    @Override
    public SimpleVersionedSerializer<NoSplit> getSplitSerializer() {
        return new Empty<>(new NoSplit());
    }

    @Override
    public SimpleVersionedSerializer<byte[]> getEnumeratorCheckpointSerializer() {
        return new Empty<>(new byte[0]);
    }

    /** Writes nothing, and reads the one value there is. */
    private static final class Empty<T> implements SimpleVersionedSerializer<T> {
        private final T value;

        Empty(T value) {
            this.value = value;
        }

        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(T ignored) {
            return new byte[0];
        }

        @Override
        public T deserialize(int version, byte[] bytes) {
            return value;
        }
    }
}
