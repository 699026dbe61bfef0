import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
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
 * Emits byte arrays, each subtask at a rate of its own; no splits are given out, and each reader
 * begins by itself, or where a checkpoint has left it.
 *
 * <p>Without arrivals, what falls due while the task is back-pressured is lost, as in the emulation.
 * With arrivals it reads a log, which keeps what it has not read, one record after the other.
 */
final class PacedSource implements Source<byte[], PacedSource.Position, byte[]> {

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
    public SourceReader<byte[], Position> createReader(SourceReaderContext context)
            throws Exception {
        JsonNode stage = new ObjectMapper().readTree(stated);
        if (!stage.get("watermark").isNull()) {
            Pauses.watch(stage.get("name").asText(), context);
        }
        return stage.get("arrivals").isNull()
                ? new PacedReader(stage, context)
                : new LogReader(stage, context);
    }

    /** How many records a subtask had emitted by a checkpoint: all that its state is. */
    static final class Position implements SourceSplit {

        final String subtask;
        final long emitted;
        final long checkpoint;

        Position(String subtask, long emitted, long checkpoint) {
            this.subtask = subtask;
            this.emitted = emitted;
            this.checkpoint = checkpoint;
        }

        @Override
        public String splitId() {
            return subtask;
        }
    }

    @Override
    public SplitEnumerator<Position, byte[]> createEnumerator(
            SplitEnumeratorContext<Position> context) {
        return new SplitEnumerator<>() {
            @Override
            public void start() {}

            @Override
            public void handleSplitRequest(int subtask, String host) {}

            @Override
            public void addSplitsBack(List<Position> splits, int subtask) {}

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
    public SplitEnumerator<Position, byte[]> restoreEnumerator(
            SplitEnumeratorContext<Position> context, byte[] state) {
        return createEnumerator(context);
    }

    @Override
    public SimpleVersionedSerializer<Position> getSplitSerializer() {
        return new Positions();
    }

    @Override
    public SimpleVersionedSerializer<byte[]> getEnumeratorCheckpointSerializer() {
        return new Empty();
    }

    private static final class Positions implements SimpleVersionedSerializer<Position> {

        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(Position own) {
            byte[] name = own.subtask.getBytes(StandardCharsets.UTF_8);
            return ByteBuffer.allocate(2 * Long.BYTES + name.length)
                    .putLong(own.emitted)
                    .putLong(own.checkpoint)
                    .put(name)
                    .array();
        }

        @Override
        public Position deserialize(int version, byte[] bytes) {
            ByteBuffer own = ByteBuffer.wrap(bytes);
            long emitted = own.getLong();
            long checkpoint = own.getLong();
            return new Position(StandardCharsets.UTF_8.decode(own).toString(), emitted, checkpoint);
        }
    }

    /** The enumerator has nothing to keep. */
    private static final class Empty implements SimpleVersionedSerializer<byte[]> {

        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(byte[] none) {
            return none;
        }

        @Override
        public byte[] deserialize(int version, byte[] none) {
            return none;
        }
    }
}
