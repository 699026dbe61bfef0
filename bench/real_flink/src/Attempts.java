import java.lang.reflect.Field;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.LongSupplier;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.runtime.execution.Environment;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;

/**
 * The attempt of a subtask that runs: what it has taken up and emitted, in the attempts before up to
 * the checkpoint that it was restored from, and by what it can be failed. All task managers share
 * this process.
 */
final class Attempts {

    static final Map<String, Attempts> OF_SUBTASK = new ConcurrentSkipListMap<>();

    /** What Flink knows the task by. */
    private final Environment environment;
    /** Records that wait in the log of a source; -1: it has none. */
    private final LongSupplier lag;

    volatile long taken;
    volatile long emitted;

    private Attempts(Environment environment, LongSupplier lag) {
        this.environment = environment;
        this.lag = lag;
    }

    /** Begins the attempt of an operator. */
    static Attempts begin(
            String name, RuntimeContext context, long taken, long emitted, long checkpoint)
            throws Exception {
        Field field = context.getClass().getDeclaredField("taskEnvironment");
        field.setAccessible(true);
        Attempts own = new Attempts((Environment) field.get(context), () -> -1);
        own.taken = taken;
        return own.enter(name, emitted, checkpoint);
    }

    /** Begins the attempt of a source. */
    static Attempts begin(
            String name,
            SourceReaderContext context,
            long emitted,
            long checkpoint,
            LongSupplier lag)
            throws Exception {
        Field outer = context.getClass().getDeclaredField("this$0");
        outer.setAccessible(true);
        AbstractStreamOperator<?> operator = (AbstractStreamOperator<?>) outer.get(context);
        Attempts own = new Attempts(operator.getContainingTask().getEnvironment(), lag);
        return own.enter(name, emitted, checkpoint);
    }

    private Attempts enter(String name, long emitted, long checkpoint) {
        this.emitted = emitted;
        Attempts before = OF_SUBTASK.put(name, this);
        if (before != null) {
            Faults.restored(name, before.emitted, emitted, checkpoint);
        }
        return this;
    }

    /** Counts a record that was emitted, by its only thread. */
    void emitted() {
        emitted = emitted + 1;
    }

    /** Counts a record that was taken up, by its only thread. */
    void taken() {
        taken = taken + 1;
    }

    /** Fails the task; nothing happens if it runs no more. */
    void fail() {
        environment.failExternally(new RuntimeException("planted"));
    }

    long[] figures() {
        return new long[] {taken, emitted, lag.getAsLong()};
    }
}
