import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;

/** Kafka Streams: a sub-topology, so all stages behind the log run in its one stream thread. */
public final class StreamThread {

    private static final CountDownLatch WARM = new CountDownLatch(1);

    private StreamThread() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        String[] names = job.stages();
        Topic topic = new Topic(job);
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> stream = builder.stream(Topic.NAME);
        for (int i = 1; i < names.length - 1; i++) {
            String name = names[i];
            stream = stream.mapValues(each -> {
                Run.serve(name);
                return each;
            });
        }
        stream.foreach((key, each) -> {
            Run.serve(names[names.length - 1]);
            WARM.countDown();
        });
        Properties settings = new Properties();
        settings.putAll(Map.of(
                StreamsConfig.APPLICATION_ID_CONFIG, "real",
                StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, job.text("broker"),
                StreamsConfig.STATE_DIR_CONFIG, Run.folder().toString(),
                StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class,
                StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class,
                StreamsConfig.mainConsumerPrefix("interceptor.classes"), Polled.class.getName(),
                StreamsConfig.mainConsumerPrefix("max.poll.records"), job.text("max_records")));
        topic.warmUp(1);
        new KafkaStreams(builder.build(), settings).start();
        WARM.await();
        Run.start();
        topic.start();
        Run.toEnd("Kafka " + AppInfoParser.getVersion());
    }

    /** Counts what a poll brings into the buffer of the task. */
    public static final class Polled implements ConsumerInterceptor<byte[], byte[]> {

        @Override
        public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> polled) {
            if (Clock.hasStarted()) {
                Run.out(Run.job.stages()[0], polled.count());
            }
            return polled;
        }

        @Override
        public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {}

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> settings) {}
    }
}
