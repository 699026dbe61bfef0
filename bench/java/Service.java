import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.DoubleSupplier;

/**
 * Takes the time of a record. Back to back, a service begins when the one before was due to end:
 * oversleeping and Flink's own work between two records are made up, so that the rate is exact.
 */
final class Service {

    /** A longer wait, for a record or for a buffer, is no service, and saves none up. */
    private static final long GAP_NS = TimeUnit.MILLISECONDS.toNanos(1);

    /** What a sleep may last too long; a single service ends awake, to be no longer than stated. */
    private static final long OVERSLEEP_NS = TimeUnit.MICROSECONDS.toNanos(100);

    private final Schedule schedule;
    private final DoubleSupplier work;
    private long endNs;
    private long returnedNs;

    /** A service at the rates of a schedule, null for one that takes no time, of so much work each. */
    Service(Schedule schedule, DoubleSupplier work) {
        this.schedule = schedule;
        this.work = work;
    }

    /** Waits until the record that was taken up now has had its service. */
    void serve() throws InterruptedException {
        if (schedule == null) {
            return;
        }
        long now = Clock.now();
        boolean isNext = now - returnedNs < GAP_NS;
        long begin = isNext ? endNs : now;
        long awakeNs = isNext ? 0 : OVERSLEEP_NS;
        endNs = schedule.when(schedule.until(begin) + work.getAsDouble());
        while (now < endNs) {
            if (endNs - now > awakeNs) {
                LockSupport.parkNanos(endNs - now - awakeNs);
            }
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            now = Clock.now();
        }
    }

    /** Notes that the record was sent on, from a moment on; what blocked it is not made up. */
    void sent(long fromNs) {
        returnedNs = Clock.now();
        if (returnedNs - fromNs > GAP_NS) {
            endNs += returnedNs - fromNs;
        }
    }
}
