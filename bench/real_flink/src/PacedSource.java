import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * Emits byte arrays of one length, each subtask at a rate of its own. What falls due while the task
 * is back-pressured is lost, as in the emulation. It has no splits: each reader begins by itself.
 */
final class PacedSource implements Source<byte[], PacedSource.NoSplit, byte[]> {

    /** What a late timer may be made up for; anything older was lost to back pressure. */
    private static final long CATCH_UP_NS = TimeUnit.MILLISECONDS.toNanos(2);

    private final double[] ratePerSecond;
    private final int payloadBytes;

    PacedSource(double[] ratePerSecond, int payloadBytes) {
        this.ratePerSecond = ratePerSecond;
        this.payloadBytes = payloadBytes;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<byte[], NoSplit> createReader(SourceReaderContext context) {
        return new Reader(ratePerSecond[context.getIndexOfSubtask()], payloadBytes);
    }

    private static final class Reader implements SourceReader<byte[], NoSplit> {
        private final long periodNs;
        private final byte[] record;
        private long dueNs = System.nanoTime();

        Reader(double ratePerSecond, int payloadBytes) {
            periodNs = Math.round(1e9 / ratePerSecond);
            record = new byte[payloadBytes];
        }

        @Override
        public InputStatus pollNext(ReaderOutput<byte[]> output) {
            long now = System.nanoTime();
            if (now < dueNs) {
                return InputStatus.NOTHING_AVAILABLE;
            }
            output.collect(record);
            dueNs = Math.max(dueNs + periodNs, now - CATCH_UP_NS);
            return InputStatus.MORE_AVAILABLE;
        }

        /** A timer rather than a sleep, so that a barrier does not wait for the next record. */
        @Override
        public CompletableFuture<Void> isAvailable() {
            long waitNs = dueNs - System.nanoTime();
            return waitNs <= 0
                    ? CompletableFuture.completedFuture(null)
                    : CompletableFuture.runAsync(
                            () -> {},
                            CompletableFuture.delayedExecutor(waitNs, TimeUnit.NANOSECONDS));
        }

        @Override
        public List<NoSplit> snapshotState(long checkpointId) {
            return Collections.emptyList();
        }

        @Override
        public void start() {}

        @Override
        public void addSplits(List<NoSplit> splits) {}

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {}
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
