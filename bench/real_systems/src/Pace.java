import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * When a source emits. It makes up for late timers; what falls due while the system does not ask
 * for a record is lost, as in the emulation of a source without a log.
 */
final class Pace {

    /** A system that is free asks at once; a longer time is one in which it was blocked. */
    private static final long GAP_NS = TimeUnit.MILLISECONDS.toNanos(3);

    private final Schedule schedule;
    private double next = 1;
    private long dueNs;
    private long askedNs;

    Pace(Schedule schedule) {
        this.schedule = schedule;
        dueNs = schedule.when(next);
    }

    /** Waits until a record is due, for a system that asks when it can take one. */
    void await() {
        long now = Clock.now();
        if (now - askedNs > GAP_NS) {
            skip(now);
        }
        while (now < dueNs) {
            LockSupport.parkNanos(dueNs - now);
            if (Thread.currentThread().isInterrupted()) {
                return;
            }
            now = Clock.now();
        }
        advance();
        askedNs = Clock.now();
    }

    private void skip(long now) {
        next = Math.max(next, schedule.until(now));
        dueNs = schedule.when(next);
    }

    private void advance() {
        next += 1;
        dueNs = schedule.when(next);
    }
}
