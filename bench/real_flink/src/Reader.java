import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** A reader without splits that emits when a record is due; its state is how many it has emitted. */
abstract class Reader implements SourceReader<byte[], PacedSource.Position> {

    /** How long a reader that waits for the start of the run, or for ever, waits at a time. */
    private static final long LOOK_AGAIN_NS = TimeUnit.MILLISECONDS.toNanos(5);

    private final String name;
    private final SourceReaderContext context;
    private final long firstId;
    private long checkpoint = -1;
    private Attempts attempt;
    /** Records that were emitted, those before the attempt included. */
    long emitted;

    Reader(JsonNode stage, SourceReaderContext context) {
        this.context = context;
        name = stage.get("name").asText() + "/" + context.getIndexOfSubtask();
        firstId = stage.get("first_ids").get(context.getIndexOfSubtask()).asLong();
    }

    /** Begins behind the records that were emitted. */
    abstract void resume();

    /** Records that wait in a log; -1: there is none. */
    long pending() {
        return -1;
    }

    /** When the next record is due, nanoseconds since the start. */
    abstract long dueNs();

    /** Notes that the task asks; a blocked one does not. */
    void asked() {}

    /** Emits the record that is due. */
    abstract void emit(ReaderOutput<byte[]> output) throws InterruptedException;

    /** Sends the record of a number on, with its event time if it has one. */
    void send(
            ReaderOutput<byte[]> output, Records records, EventTimes times, long number, long ns) {
        if (times == null) {
            output.collect(records.make(ns, (int) (firstId + number)));
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
        attempt.emitted();
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
    public List<PacedSource.Position> snapshotState(long checkpointId) {
        return List.of(new PacedSource.Position(name, emitted, checkpointId));
    }

    @Override
    public void addSplits(List<PacedSource.Position> kept) {
        emitted = kept.get(0).emitted;
        checkpoint = kept.get(0).checkpoint;
    }

    @Override
    public void start() {
        try {
            attempt = Attempts.begin(name, context, emitted, checkpoint, this::pending);
        } catch (Exception hidden) {
            throw new IllegalStateException(hidden);
        }
        resume();
    }

    @Override
    public void notifyNoMoreSplits() {}

    @Override
    public void close() {}
}
