import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.LogManager;
import org.apache.pulsar.PulsarStandaloneStarter;
import org.apache.pulsar.PulsarVersion;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;

/**
 * Pulsar with a broker in this process: the source is a topic, which the broker dispatches as the
 * sink's permits allow; what they do not allow waits in the topic, the log.
 */
public final class Pulsar {

    private static final String TOPIC = "persistent://public/default/records";

    /** Records before the run, as broker and client are slow at first; permits are full again. */
    private static final int WARM_UP = 2;

    private Pulsar() {}

    public static void main(String[] arguments) throws Exception {
        // A new bookie, and web resources that nobody asks for, have much to say.
        System.setProperty("org.slf4j.simpleLogger.log.org.apache.bookkeeper.bookie", "off");
        LogManager.getLogManager().reset();
        Job job = Run.read(arguments);
        String[] names = job.stages();
        if (names.length != 2) {
            throw new IllegalArgumentException("a topic has a sink alone, no stage between");
        }
        String sink = names[1];
        int slots = job.whole("slots");
        byte[] record = job.record(names[0]);
        PulsarClient client = PulsarClient.builder().serviceUrl(broker()).build();
        Producer<byte[]> producer = client.newProducer().topic(TOPIC)
                .enableBatching(false).blockIfQueueFull(true).create();
        Consumer<byte[]> consumer = client.newConsumer().topic(TOPIC).subscriptionName(sink)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .receiverQueueSize(slots).subscribe();
        // Whole lots of permits, so that all are with the broker when the run begins.
        for (int i = 0; i < WARM_UP * Math.max(1, slots / 2); i++) {
            producer.sendAsync(record);
            consumer.acknowledgeAsync(consumer.receive());
        }
        AtomicLong published = new AtomicLong();
        Run.level(names[0] + ".out", () -> delivered(consumer, sink));
        Run.level("log", () -> Math.max(0, published.get() - delivered(consumer, sink)));
        Run.start();
        start(() -> publish(job.arrivals(names[0]), record, producer, published));
        start(() -> take(consumer, sink));
        Run.toEnd("Pulsar " + PulsarVersion.getVersion());
    }

    /** Starts a broker with a bookie, on loopback, its files in the folder of the run. */
    private static String broker() throws Exception {
        Path folder = Run.folder();
        int port = freePort();
        Path settings = folder.resolve("standalone.conf");
        Files.write(settings, List.of(
                "brokerServicePort=" + port,
                "webServicePort=" + freePort(),
                "bindAddress=127.0.0.1",
                "advertisedAddress=127.0.0.1",
                "allowLoopback=true",
                "listeningInterface=lo",
                "clusterName=standalone",
                "zookeeperServers=",
                "configurationStoreServers=",
                "metadataStoreUrl=",
                "managedLedgerDefaultEnsembleSize=1",
                "managedLedgerDefaultWriteQuorum=1",
                "managedLedgerDefaultAckQuorum=1",
                "journalSyncData=false",
                "diskUsageThreshold=0.99",
                "diskUsageWarnThreshold=0.99",
                "loadBalancerEnabled=false",
                "systemTopicEnabled=false",
                "topicLevelPoliciesEnabled=false"));
        PulsarStandaloneStarter.main(new String[] {
                "--config", settings.toString(), "--num-bookies", "1",
                "--bookkeeper-dir", folder.resolve("bookie").toString(),
                "--metadata-dir", folder.resolve("metadata").toString(),
                "--no-functions-worker", "--no-stream-storage"});
        return "pulsar://127.0.0.1:" + port;
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    /** Messages that were taken, and those that wait in the consumer. */
    private static double delivered(Consumer<byte[]> consumer, String sink) {
        return Run.count(sink + ".in") + consumer.getStats().getMsgNumInReceiverQueue();
    }

    private static void publish(
            Schedule arrivals, byte[] record, Producer<byte[]> producer, AtomicLong published) {
        while (true) {
            long dueNs = arrivals.when(published.get() + 1);
            while (Clock.now() < dueNs) {
                LockSupport.parkNanos(dueNs - Clock.now());
            }
            producer.sendAsync(record);
            published.incrementAndGet();
        }
    }

    private static void take(Consumer<byte[]> consumer, String sink) {
        Service service = Run.service(sink);
        while (true) {
            try {
                consumer.acknowledgeAsync(consumer.receive());
            } catch (PulsarClientException error) {
                throw new IllegalStateException(error);
            }
            Run.serve(sink, service);
        }
    }

    private static void start(Runnable loop) {
        Thread thread = new Thread(loop);
        thread.setDaemon(true);
        thread.start();
    }
}
