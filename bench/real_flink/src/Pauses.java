import java.lang.reflect.Field;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.connector.source.SourceReaderContext;

/**
 * For how long sources wait for others by event time. No metric of Flink says so: a thread looks
 * every few milliseconds at what the operator of a source does.
 */
final class Pauses {

    private static final long EVERY_NS = TimeUnit.MILLISECONDS.toNanos(5);

    private static final Map<String, Pauses> OF_SUBTASK = new ConcurrentHashMap<>();

    private static Thread looker;

    private final Object operator;
    private final Field mode;
    private volatile long pausedNs;

    private Pauses(Object operator, Field mode) {
        this.operator = operator;
        this.mode = mode;
    }

    /** Watches the operator of a reader. */
    static void watch(String stage, SourceReaderContext context) throws Exception {
        Field outer = context.getClass().getDeclaredField("this$0");
        outer.setAccessible(true);
        Object operator = outer.get(context);
        Class<?> type = operator.getClass();
        while (!type.getSimpleName().equals("SourceOperator")) {
            type = type.getSuperclass();
        }
        Field mode = type.getDeclaredField("operatingMode");
        mode.setAccessible(true);
        OF_SUBTASK.put(stage + "/" + context.getIndexOfSubtask(), new Pauses(operator, mode));
        begin();
    }

    private static synchronized void begin() {
        if (looker == null) {
            looker = new Thread(Pauses::look);
            looker.setDaemon(true);
            looker.start();
        }
    }

    private static void look() {
        for (long before = System.nanoTime(); ; ) {
            LockSupport.parkNanos(EVERY_NS);
            long now = System.nanoTime();
            for (Pauses one : OF_SUBTASK.values()) {
                one.pausedNs += one.isPaused() ? now - before : 0;
            }
            before = now;
        }
    }

    private boolean isPaused() {
        try {
            return mode.get(operator).toString().equals("WAITING_FOR_ALIGNMENT");
        } catch (IllegalAccessException hidden) {
            throw new IllegalStateException(hidden);
        }
    }

    /** Figures of a sample, by subtask. */
    static Map<String, Map<String, Object>> take() {
        Map<String, Map<String, Object>> rows = new LinkedHashMap<>();
        OF_SUBTASK.forEach((name, own) -> rows.put(name, Map.of("paused_ms", own.pausedNs / 1e6)));
        return rows;
    }
}
