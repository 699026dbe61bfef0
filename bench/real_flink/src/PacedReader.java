import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** Emits at its rate. A late timer is made up for; what a blocked task did not emit is lost. */
final class PacedReader extends Reader {

    /** The task asks at once after a record; a longer time is one in which it was blocked. */
    private static final long GAP_NS = TimeUnit.MILLISECONDS.toNanos(2);

    private final Schedule schedule;
    private final Work work;
    private final Records records;
    private final EventTimes times;
    /** Work by which the next record is due. */
    private double next;
    private long dueNs;
    private long emittedNs;
    private boolean isAsked = true;

    PacedReader(JsonNode stage, SourceReaderContext context) {
        super(stage, context);
        int subtask = context.getIndexOfSubtask();
        schedule = Stated.schedule(stage.get("rates").get(subtask));
        work = new Work(stage, subtask);
        records = new Records(stage);
        times = EventTimes.of(stage, subtask);
    }

    /** What fell due while it did not run is lost. */
    @Override
    void resume() {
        next = (Clock.hasStarted() ? schedule.until(Clock.now()) : 0) + work.next();
        dueNs = schedule.when(next);
    }

    @Override
    long dueNs() {
        return dueNs;
    }

    @Override
    void asked() {
        if (!isAsked) {
            skipFrom(emittedNs);
        }
        isAsked = true;
    }

    @Override
    void emit(ReaderOutput<byte[]> output) {
        long fromNs = Clock.now();
        send(output, records, times, emitted++, fromNs);
        next += work.next();
        dueNs = schedule.when(next);
        skipFrom(fromNs); // a record that is larger than what is free blocks within
        emittedNs = Clock.now();
        isAsked = false;
    }

    /** Loses what fell due since a moment, if the task was blocked. */
    private void skipFrom(long fromNs) {
        long now = Clock.now();
        if (now - fromNs > GAP_NS) {
            for (double lost = schedule.until(now); next < lost; ) {
                next += work.next();
            }
            dueNs = schedule.when(next);
        }
    }
}
