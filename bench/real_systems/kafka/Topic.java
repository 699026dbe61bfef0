import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The log of a source: a topic with one partition, written to at the source's arrival rate. */
final class Topic {

    static final String NAME = "records";

    private final Job job;
    private final String source;
    private final Producer<byte[], byte[]> producer;
    private final AtomicLong written = new AtomicLong();

    /** Makes the topic. */
    Topic(Job job) throws Exception {
        this.job = job;
        source = job.stages()[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", job.text("broker")))) {
            admin.createTopics(List.of(new NewTopic(NAME, 1, (short) 1))).all().get();
        }
        // linger.ms: a record is in the log when it falls due.
        Map<String, Object> settings =
                Map.of("bootstrap.servers", job.text("broker"), "linger.ms", 0);
        producer = new KafkaProducer<>(
                settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Writes records before the start, so that all parts of the system have worked once. */
    void warmUp(int records) throws Exception {
        for (int i = 0; i < records; i++) {
            producer.send(record()).get();
        }
    }

    /** Writes what falls due from now on; what the system has not read is sampled as the log. */
    void start() {
        Run.level("log", () -> written.get() - Run.count(source + ".out"));
        Thread thread = new Thread(this::write);
        thread.setDaemon(true);
        thread.start();
    }

    /** Settings of a consumer of the topic. */
    static Map<String, Object> reader(Job job) {
        String deserializer = ByteArrayDeserializer.class.getName();
        return Map.of(
                "bootstrap.servers", job.text("broker"),
                "group.id", "readers",
                "key.deserializer", deserializer,
                "value.deserializer", deserializer,
                "auto.offset.reset", "earliest");
    }

    private ProducerRecord<byte[], byte[]> record() {
        return new ProducerRecord<>(NAME, job.record(source));
    }

    private void write() {
        Schedule schedule = job.arrivals(source);
        for (long number = 1;; number++) {
            long due = schedule.when(number);
            for (long now = Clock.now(); now < due; now = Clock.now()) {
                LockSupport.parkNanos(due - now);
            }
            producer.send(record(), (place, error) -> written.incrementAndGet());
        }
    }
}
