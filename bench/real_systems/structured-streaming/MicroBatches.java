import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.api.java.function.ForeachFunction;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.streaming.Trigger;

/** Structured Streaming: a query from a topic, all stages behind it in the one task of a batch. */
public final class MicroBatches {

    private static final long WARM_MS = 60_000;

    /** Last offset of the batches so far. */
    private static long planned;
    private static volatile long batches;
    /** Rows of the batch that begins, until its first one is read. */
    private static final AtomicLong BEGINS = new AtomicLong();
    private static long endNs;

    private MicroBatches() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        String[] names = job.stages();
        Topic topic = new Topic(job);
        SparkSession spark = SparkSession.builder()
                .master("local[1]")
                .config("spark.ui.enabled", "false")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.local.dir", Run.folder().toString())
                .config("spark.sql.shuffle.partitions", "1")
                .getOrCreate();
        spark.sparkContext().setLogLevel("ERROR");
        DataStreamReader reader = spark.readStream()
                .format("kafka")
                .option("kafka.bootstrap.servers", job.text("broker"))
                .option("subscribe", Topic.NAME)
                .option("startingOffsets", "earliest");
        if (job.whole("max_records") > 0) {
            reader = reader.option("maxOffsetsPerTrigger", job.text("max_records"));
        }
        if (job.whole("min_records") > 0) {
            reader = reader.option("minOffsetsPerTrigger", job.text("min_records"))
                    .option("maxTriggerDelay", job.text("max_delay_ms") + "ms");
        }
        Dataset<byte[]> rows = reader.load().select("value").as(Encoders.BINARY());
        for (int i = 1; i < names.length - 1; i++) {
            String name = names[i];
            MapFunction<byte[], byte[]> map = row -> {
                serve(names[0], name);
                return row;
            };
            rows = rows.map(map, Encoders.BINARY());
        }
        Path checkpoint = Run.folder().resolve("checkpoint");
        String last = names[names.length - 1];
        VoidFunction2<Dataset<byte[]>, Long> sink = (batch, number) -> {
            plan(checkpoint.resolve("offsets").resolve(number.toString()));
            batch.foreach((ForeachFunction<byte[]>) row -> serve(names[0], last));
            batches += 1;
            endNs = Clock.hasStarted() ? Clock.now() : 0;
        };
        // The first batch takes any number of rows: less than all would be left for those that count.
        topic.warmUp(leastRows(job));
        rows.writeStream()
                .foreachBatch(sink)
                .option("checkpointLocation", checkpoint.toString())
                .trigger(Trigger.ProcessingTime(job.whole("interval_ms")))
                .start();
        warmUp(topic, job);
        awaitTick(job.whole("interval_ms"));
        Run.start();
        topic.start();
        Run.toEnd("Spark " + spark.version());
    }

    private static int leastRows(Job job) {
        return Math.max(1, job.whole("min_records"));
    }

    /** Has batches run until they are as fast as those that count. */
    private static void warmUp(Topic topic, Job job) throws Exception {
        long end = System.currentTimeMillis() + WARM_MS;
        for (long done = 1;; done++) {
            while (batches < done) {
                Thread.sleep(10);
            }
            if (System.currentTimeMillis() > end) {
                break;
            }
            topic.warmUp(leastRows(job));
        }
        Thread.sleep(1000);
    }

    /** Triggers fall due at multiples of the interval since 1970. */
    private static void awaitTick(long intervalMs) throws InterruptedException {
        if (intervalMs > 0) {
            Thread.sleep(intervalMs - System.currentTimeMillis() % intervalMs);
        }
    }

    /** Takes the time of a row; the first one of a batch takes up all of it from the topic. */
    private static void serve(String source, String stage) {
        long records = BEGINS.getAndSet(0);
        if (records > 0) {
            Run.out(source, records);
        }
        Run.serve(stage);
    }

    /** Notes what the batch that begins has planned to read, as the log of offsets says. */
    private static void plan(Path offsets) throws Exception {
        List<String> lines = Files.readAllLines(offsets);
        String end = lines.get(lines.size() - 1).replaceAll(".*:(\\d+)\\}\\}$", "$1");
        long records = Long.parseLong(end) - planned;
        planned += records;
        if (Clock.hasStarted()) {
            BEGINS.set(records);
            double idleMs = (Clock.now() - endNs) / 1e6;
            Run.event("batch", "\"records\": " + records + ", \"idle_ms\": " + idleMs);
        }
    }
}
