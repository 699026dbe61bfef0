import java.util.concurrent.TimeUnit;

/** The time of the run: it begins when all tasks run, for the whole job at once. */
final class Clock {

    private static volatile boolean hasStarted;
    private static volatile long startNs;

    private Clock() {}

    /** Begins the run: sources emit from now on, and schedules are read from now on. */
    static void start() {
        startNs = System.nanoTime();
        hasStarted = true;
    }

    static boolean hasStarted() {
        return hasStarted;
    }

    /** Nanoseconds since the start. */
    static long now() {
        return System.nanoTime() - startNs;
    }

    static double seconds() {
        return now() / (double) TimeUnit.SECONDS.toNanos(1);
    }
}
