import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** A thread that wakes up all the time: how late it does shows whether the machine was busy. */
final class Pulse {

    private static final long EVERY_NS = TimeUnit.MILLISECONDS.toNanos(10);

    /** What is not late yet. */
    private static final long TOLERATED_NS = TimeUnit.MILLISECONDS.toNanos(3);

    private static volatile long lateNs;
    private static volatile long latestNs;

    private Pulse() {}

    static void start() {
        Thread thread = new Thread(Pulse::beat);
        thread.setDaemon(true);
        thread.start();
    }

    /** Milliseconds by which it was late in all. */
    static double lateMs() {
        return lateNs / 1e6;
    }

    /** Milliseconds by which it was late at most. */
    static double latestMs() {
        return latestNs / 1e6;
    }

    private static void beat() {
        while (true) {
            long due = System.nanoTime() + EVERY_NS;
            LockSupport.parkNanos(EVERY_NS);
            long late = System.nanoTime() - due;
            if (late > TOLERATED_NS) {
                lateNs += late;
                latestNs = Math.max(latestNs, late);
            }
        }
    }
}
