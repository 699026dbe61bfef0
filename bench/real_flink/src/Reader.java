import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.core.io.InputStatus;

/** A reader without splits and state that emits when a record is due. */
abstract class Reader implements SourceReader<byte[], PacedSource.NoSplit> {

    /** How long a reader that waits for the start of the run, or for ever, waits at a time. */
    private static final long LOOK_AGAIN_NS = TimeUnit.MILLISECONDS.toNanos(5);

    /** When the next record is due, nanoseconds since the start. */
    abstract long dueNs();

    /** Notes that the task asks; a blocked one does not. */
    void asked() {}

    /** Emits the record that is due. */
    abstract void emit(ReaderOutput<byte[]> output) throws InterruptedException;

    /** Sends the record of a number on, with its event time if it has one. */
    static void send(
            ReaderOutput<byte[]> output, Records records, EventTimes times, long number, long ns) {
        if (times == null) {
            output.collect(records.make(ns));
        } else {
            output.collect(records.make(ns, times.id(number)), times.time(number));
        }
    }

    @Override
    public InputStatus pollNext(ReaderOutput<byte[]> output) throws InterruptedException {
        if (!Clock.hasStarted()) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        asked();
        if (Clock.now() < dueNs()) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        emit(output);
        return InputStatus.MORE_AVAILABLE;
    }

    /** A timer rather than a sleep, so that a barrier does not wait for the next record. */
    @Override
    public CompletableFuture<Void> isAvailable() {
        long waitNs = Clock.hasStarted()
                ? Math.min(dueNs() - Clock.now(), TimeUnit.SECONDS.toNanos(1))
                : LOOK_AGAIN_NS;
        return waitNs <= 0
                ? CompletableFuture.completedFuture(null)
                : CompletableFuture.runAsync(
                        () -> {},
                        CompletableFuture.delayedExecutor(waitNs, TimeUnit.NANOSECONDS));
    }

    @Override
    public List<PacedSource.NoSplit> snapshotState(long checkpointId) {
        return Collections.emptyList();
    }

    @Override
    public void start() {}

    @Override
    public void addSplits(List<PacedSource.NoSplit> splits) {}

    @Override
    public void notifyNoMoreSplits() {}

    @Override
    public void close() {}
}
