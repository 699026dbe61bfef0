import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.utils.AppInfoParser;

/** A consumer of Kafka: a thread that polls, takes the time of each record, and polls again. */
public final class PollLoop {

    private PollLoop() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        Topic topic = new Topic(job);
        Map<String, Object> settings = new HashMap<>(Topic.reader(job));
        settings.put("max.poll.records", job.text("max_records"));
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(Topic.NAME));
        topic.warmUp(1);
        while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
            continue;
        }
        Thread thread = new Thread(() -> read(consumer, job.stages()));
        thread.setDaemon(true);
        Run.start();
        topic.start();
        thread.start();
        Run.toEnd("Kafka " + AppInfoParser.getVersion());
    }

    private static void read(KafkaConsumer<byte[], byte[]> consumer, String[] names) {
        while (true) {
            ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(100));
            Run.out(names[0], polled.count());
            polled.forEach(record -> {
                for (int i = 1; i < names.length; i++) {
                    Run.serve(names[i]);
                }
            });
        }
    }
}
