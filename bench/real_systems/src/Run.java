import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.DoubleSupplier;

/**
 * The run of a job: counters of each stage, sampled into a file, a line of JSON each.
 *
 * <p>All is static, as systems copy what a stage is made of; they run in one process.
 */
final class Run {

    private static final Map<String, AtomicLong> COUNTERS = new LinkedHashMap<>();
    private static final Map<String, DoubleSupplier> LEVELS = new LinkedHashMap<>();
    private static final Queue<String> EVENTS = new ConcurrentLinkedQueue<>();
    private static final Map<String, Service> SERVICES = new ConcurrentHashMap<>();

    static Job job;
    private static Path out;

    private Run() {}

    /** Reads the job; the arguments of a program are its file and that of the samples. */
    static Job read(String[] arguments) throws IOException {
        job = new Job(Path.of(arguments[0]));
        out = Path.of(arguments[1]);
        for (String stage : job.stages()) {
            COUNTERS.put(stage + ".in", new AtomicLong());
            COUNTERS.put(stage + ".out", new AtomicLong());
        }
        return job;
    }

    /** A record was taken up by a stage. */
    static void in(String stage) {
        COUNTERS.get(stage + ".in").incrementAndGet();
    }

    /** A stage has sent a record on. */
    static void out(String stage) {
        out(stage, 1);
    }

    /** A stage has sent so many records on. */
    static void out(String stage, long records) {
        COUNTERS.get(stage + ".out").addAndGet(records);
    }

    static long count(String counter) {
        return COUNTERS.get(counter).get();
    }

    /** Samples a level, such as what waits in a log, or what a counter would be. */
    static void level(String name, DoubleSupplier value) {
        COUNTERS.remove(name);
        LEVELS.put(name, value);
    }

    /** Notes something that happened, such as a batch: numbers by name, as JSON without braces. */
    static void event(String kind, String numbers) {
        EVENTS.add(line("{\"event\": \"%s\", \"t\": %.4f, %s}", kind, Clock.seconds(), numbers));
    }

    static Pace pace(String stage) {
        return new Pace(job.rates(stage));
    }

    static Service service(String stage) {
        return new Service(job.rates(stage), () -> 1);
    }

    /** Takes a record up, serves it, and counts it as sent on. */
    static void serve(String stage, Service service) {
        in(stage);
        try {
            service.serve();
            service.sent(Clock.now());
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
        out(stage);
    }

    /** The same in a system that copies functions, and before the start, to warm it up. */
    static void serve(String stage) {
        if (Clock.hasStarted()) {
            serve(stage, SERVICES.computeIfAbsent(stage, Run::service));
        }
    }

    /** Where a program keeps its files; it is emptied behind it. */
    static Path folder() {
        return out.toAbsolutePath().getParent();
    }

    /** Time begins: sources emit, and schedules are read, from now on. */
    static void start() {
        Pulse.start();
        Clock.start();
    }

    /** Samples until the time of the job is over; then the process ends, whatever still runs. */
    static void toEnd(String version) throws IOException, InterruptedException {
        double every = job.number("sample_s");
        double duration = job.number("duration_s");
        try (BufferedWriter writer = Files.newBufferedWriter(out)) {
            for (int k = 1; k * every < duration + every / 2; k++) {
                Thread.sleep(Math.max(0, Math.round((k * every - Clock.seconds()) * 1000)));
                writer.write(sample());
                for (String event = EVENTS.poll(); event != null; event = EVENTS.poll()) {
                    writer.write(event);
                }
            }
            writer.write(line(
                    "{\"version\": \"%s\", \"late_ms\": %.1f, \"latest_ms\": %.1f}",
                    version, Pulse.lateMs(), Pulse.latestMs()));
        }
        Runtime.getRuntime().halt(0);
    }

    private static String sample() {
        StringBuilder text = new StringBuilder(line("{\"t\": %.4f", Clock.seconds()).trim());
        COUNTERS.forEach((name, count) -> text.append(", \"" + name + "\": " + count.get()));
        LEVELS.forEach((name, level) -> text.append(", \"" + name + "\": " + level.getAsDouble()));
        return text.append("}\n").toString();
    }

    private static String line(String form, Object... values) {
        return String.format(Locale.ROOT, form, values) + "\n";
    }
}
