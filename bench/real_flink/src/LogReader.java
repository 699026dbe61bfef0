import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** Reads a log to which records are written at a rate; reading one takes the time of a service. */
final class LogReader extends Reader {

    private final Schedule arrivals;
    private final Service service;
    private final Records records;
    private final EventTimes times;
    private final boolean isFromArrival;
    private long dueNs;

    LogReader(JsonNode stage, SourceReaderContext context) {
        super(stage, context);
        int subtask = context.getIndexOfSubtask();
        arrivals = Stated.schedule(stage.get("arrivals").get(subtask));
        service = Stated.service(stage, subtask);
        records = new Records(stage);
        times = EventTimes.of(stage, subtask);
        isFromArrival = stage.get("latency_from").asText().equals("arrival");
        context.metricGroup().setPendingRecordsGauge(this::pending);
    }

    /** Records that were written and not taken: Flink's own metric pendingRecords. */
    @Override
    long pending() {
        return Clock.hasStarted() ? Math.max(0, (long) arrivals.until(Clock.now()) - emitted) : 0;
    }

    @Override
    void resume() {
        dueNs = arrivals.when(emitted + 1);
    }

    @Override
    long dueNs() {
        return dueNs;
    }

    @Override
    void emit(ReaderOutput<byte[]> output) throws InterruptedException {
        long arrivedNs = dueNs;
        emitted++;
        dueNs = arrivals.when(emitted + 1);
        service.serve();
        long fromNs = Clock.now();
        send(output, records, times, emitted - 1, isFromArrival ? arrivedNs : fromNs);
        service.sent(fromNs);
    }
}
