import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** What the windows of a subtask hold and give; all task managers share this process. */
final class WindowFigures {

    private static final Map<String, WindowFigures> OF_SUBTASK = new ConcurrentHashMap<>();

    /** Those of the task that runs on this thread: an aggregate function is not told its task. */
    private static final ThreadLocal<WindowFigures> OWN = new ThreadLocal<>();

    private final List<Object[]> results = new ArrayList<>();
    private long open;
    private volatile long stampNs = -1;

    /** Those of a subtask, whose thread this is. */
    static WindowFigures begin(String stage, int subtask) {
        WindowFigures found =
                OF_SUBTASK.computeIfAbsent(stage + "/" + subtask, key -> new WindowFigures());
        OWN.set(found);
        return found;
    }

    /** Counts windows of this thread's task that have contents from now on, or, below 0, none. */
    static void hold(int more) {
        WindowFigures own = OWN.get();
        synchronized (own) {
            own.open += more;
        }
    }

    /** Notes when the record was emitted that this thread's task has put into a window. */
    static void took(long stampNs) {
        OWN.get().stampNs = stampNs;
    }

    /** When the last record so far was emitted: the age of a result counts from then. */
    long stampNs() {
        return stampNs;
    }

    /** A window has fired; its bounds are milliseconds, the largest long: it has none. */
    synchronized void fired(long startMs, long endMs, String key, long count) {
        results.add(new Object[] {startMs, endMs, key, count, Clock.seconds()});
    }

    /** Figures of a sample, by subtask. */
    static Map<String, Map<String, Object>> take() {
        Map<String, Map<String, Object>> rows = new LinkedHashMap<>();
        OF_SUBTASK.forEach((name, figures) -> rows.put(name, figures.row()));
        return rows;
    }

    private synchronized Map<String, Object> row() {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("open_windows", open);
        row.put("fired", results.size());
        return row;
    }

    /** By subtask, all results: start, end, key, records, and when it fired, seconds. */
    static Map<String, List<Object[]>> results() {
        Map<String, List<Object[]>> found = new LinkedHashMap<>();
        OF_SUBTASK.forEach((name, figures) -> found.put(name, figures.copy()));
        return found;
    }

    private synchronized List<Object[]> copy() {
        return Arrays.asList(results.toArray(new Object[0][]));
    }
}
