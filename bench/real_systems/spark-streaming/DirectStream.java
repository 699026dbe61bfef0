import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.streaming.Duration;
import org.apache.spark.streaming.api.java.JavaInputDStream;
import org.apache.spark.streaming.api.java.JavaStreamingContext;
import org.apache.spark.streaming.kafka010.ConsumerStrategies;
import org.apache.spark.streaming.kafka010.HasOffsetRanges;
import org.apache.spark.streaming.kafka010.KafkaUtils;
import org.apache.spark.streaming.kafka010.LocationStrategies;
import org.apache.spark.streaming.kafka010.OffsetRange;
import org.apache.spark.streaming.scheduler.BatchInfo;
import org.apache.spark.streaming.scheduler.StreamingListener;
import org.apache.spark.streaming.scheduler.StreamingListenerBatchCompleted;

/** DStreams: the direct stream from a topic, its rate by the PID; stages in the task of a batch. */
public final class DirectStream {

    private static final int WARM_BATCHES = 150;

    private static volatile long warm;
    /** Records of the batch that begins, until its first one is read. */
    private static final AtomicLong BEGINS = new AtomicLong();

    private DirectStream() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        String[] names = job.stages();
        Topic topic = new Topic(job);
        SparkConf conf = new SparkConf()
                .setMaster("local[1]")
                .setAppName("real")
                .set("spark.ui.enabled", "false")
                .set("spark.driver.bindAddress", "127.0.0.1")
                .set("spark.driver.host", "127.0.0.1")
                .set("spark.local.dir", Run.folder().toString());
        for (String[] pair : new String[][] {
            {"backpressure.enabled", "true"},
            {"backpressure.pid.proportional", job.text("proportional")},
            {"backpressure.pid.integral", job.text("integral")},
            {"backpressure.pid.derived", job.text("derivative")},
            {"backpressure.pid.minRate", job.text("min_rate")},
            {"backpressure.initialRate", job.text("initial_rate")},
            {"kafka.maxRatePerPartition", job.text("max_rate")},
        }) {
            conf.set("spark.streaming." + pair[0], pair[1]);
        }
        JavaSparkContext spark = new JavaSparkContext(conf);
        spark.setLogLevel("ERROR");
        long intervalMs = job.whole("interval_ms");
        JavaStreamingContext first = stream(spark, 100, names, job);
        first.start();
        while (warm < WARM_BATCHES) {
            topic.warmUp(1);
            Thread.sleep(100);
        }
        // A context of its own, so that the PID has seen nothing.
        first.stop(false, true);
        JavaStreamingContext second = stream(spark, intervalMs, names, job);
        second.addStreamingListener(new Completed());
        second.start();
        Thread.sleep(2 * intervalMs);
        // Batches form at multiples of the interval since 1970.
        Thread.sleep(intervalMs - System.currentTimeMillis() % intervalMs);
        Run.start();
        topic.start();
        Run.toEnd("Spark " + spark.version());
    }

    private static JavaStreamingContext stream(
            JavaSparkContext spark, long intervalMs, String[] names, Job job) {
        JavaStreamingContext context = new JavaStreamingContext(spark, new Duration(intervalMs));
        JavaInputDStream<ConsumerRecord<byte[], byte[]>> stream = KafkaUtils.createDirectStream(
                context,
                LocationStrategies.PreferConsistent(),
                ConsumerStrategies.Subscribe(List.of(Topic.NAME), Topic.reader(job)));
        stream.foreachRDD(batch -> {
            begin(((HasOffsetRanges) batch.rdd()).offsetRanges());
            JavaRDD<byte[]> rows = batch.map(ConsumerRecord::value);
            for (int i = 1; i < names.length - 1; i++) {
                String name = names[i];
                rows = rows.map(row -> {
                    serve(names[0], name);
                    return row;
                });
            }
            String last = names[names.length - 1];
            rows.foreach(row -> serve(names[0], last));
            warm += 1;
        });
        return context;
    }

    /** Takes the time of a record; the first one of a batch takes up all of it from the topic. */
    private static void serve(String source, String stage) {
        long records = BEGINS.getAndSet(0);
        if (records > 0) {
            Run.out(source, records);
        }
        Run.serve(stage);
    }

    /** Notes what a batch has, when it begins. */
    private static void begin(OffsetRange[] ranges) {
        long records = 0;
        for (OffsetRange range : ranges) {
            records += range.count();
        }
        if (Clock.hasStarted()) {
            BEGINS.set(records);
        }
    }

    /** Notes what the PID is told of a batch. */
    private static final class Completed implements StreamingListener {

        @Override
        public void onBatchCompleted(StreamingListenerBatchCompleted batch) {
            BatchInfo done = batch.batchInfo();
            if (Clock.hasStarted() && done.numRecords() > 0) {
                Run.event("batch", String.format(
                        "\"records\": %d, \"processing_ms\": %s, \"scheduling_ms\": %s",
                        done.numRecords(), done.processingDelay().get(),
                        done.schedulingDelay().get()));
            }
        }
    }
}
