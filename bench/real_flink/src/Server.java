import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.util.Collector;

/** Takes a fixed time a record, then passes it on, or drops it if it is the last of the chain. */
final class Server extends RichFlatMapFunction<byte[], byte[]> {

    /** Records processed so far by "stage/subtask"; all task managers share this process. */
    static final Map<String, AtomicLong> PROCESSED = new ConcurrentHashMap<>();

    /** A longer wait for the next record is a starved server, which saves up no service. */
    private static final long GAP_NS = TimeUnit.MILLISECONDS.toNanos(1);

    private final String stage;
    private final double[] ratePerSecond;
    private final boolean isLast;

    private transient AtomicLong processed;
    private transient long serviceNs;
    private transient long endNs;
    private transient long returnedNs;

    Server(String stage, double[] ratePerSecond, boolean isLast) {
        this.stage = stage;
        this.ratePerSecond = ratePerSecond;
        this.isLast = isLast;
    }

    @Override
    public void open(Configuration unused) {
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        processed = PROCESSED.computeIfAbsent(stage + "/" + subtask, key -> new AtomicLong());
        serviceNs = Math.round(1e9 / ratePerSecond[subtask]);
    }

    @Override
    public void flatMap(byte[] record, Collector<byte[]> out) throws InterruptedException {
        long now = System.nanoTime();
        // Back to back, a service begins when the one before was due to end: oversleeping and
        // Flink's own work between two records are made up, so that the rate is exact.
        endNs = (now - returnedNs < GAP_NS ? endNs : now) + serviceNs;
        while (now < endNs) {
            LockSupport.parkNanos(endNs - now);
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            now = System.nanoTime();
        }
        processed.incrementAndGet();
        if (!isLast) {
            out.collect(record);
        }
        returnedNs = System.nanoTime();
    }
}
