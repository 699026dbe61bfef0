import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.exceptions.ClientException;

/**
 * RabbitMQ over AMQP 1.0: the source is a queue, which delivers what the sink's link credit allows;
 * what it may not deliver waits in the queue, the log.
 */
public final class Rabbitmq {

    private static final String QUEUE = "/queue/records";

    /** Records before the run, as broker and client are slow at first. */
    private static final int WARM_UP = 500;

    private Rabbitmq() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        String[] names = job.stages();
        if (names.length != 2) {
            throw new IllegalArgumentException("a queue has a sink alone, no stage between");
        }
        String queue = names[0];
        String sink = names[1];
        Connection publisher = connect(job);
        Sender sender = publisher.openSender(QUEUE).openFuture().get();
        // Qpid's client tops up to this once 7 in 10 or fewer are granted and were not taken.
        ReceiverOptions options = new ReceiverOptions().creditWindow(job.whole("credit"));
        Receiver receiver = connect(job).openReceiver(QUEUE, options).openFuture().get();
        for (int i = 0; i < WARM_UP; i++) {
            sender.send(Message.create(job.record(queue)));
            receiver.receive();
        }
        AtomicLong published = new AtomicLong();
        Run.level(queue + ".out", () -> delivered(receiver, sink));
        Run.level("log", () -> Math.max(0, published.get() - delivered(receiver, sink)));
        Run.start();
        start(() -> publish(job, queue, sender, published));
        start(() -> take(receiver, sink));
        Run.toEnd("RabbitMQ " + publisher.properties().get("version"));
    }

    private static Connection connect(Job job) throws Exception {
        String[] address = job.text("broker").split(":");
        ConnectionOptions options = new ConnectionOptions().user("guest").password("guest");
        return Client.create()
                .connect(address[0], Integer.parseInt(address[1]), options).openFuture().get();
    }

    /** Deliveries that were taken, and those that wait in the client. */
    private static double delivered(Receiver receiver, String sink) {
        try {
            return Run.count(sink + ".in") + receiver.queuedDeliveries();
        } catch (ClientException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void publish(Job job, String queue, Sender sender, AtomicLong published)
            throws ClientException {
        Schedule arrivals = job.arrivals(queue);
        byte[] record = job.record(queue);
        while (true) {
            long dueNs = arrivals.when(published.get() + 1);
            while (Clock.now() < dueNs) {
                LockSupport.parkNanos(dueNs - Clock.now());
            }
            sender.send(Message.create(record));
            published.incrementAndGet();
        }
    }

    private static void take(Receiver receiver, String sink) throws ClientException {
        Service service = Run.service(sink);
        while (true) {
            receiver.receive();
            Run.serve(sink, service);
        }
    }

    private static void start(Loop loop) {
        Thread thread = new Thread(() -> {
            try {
                loop.run();
            } catch (ClientException error) {
                throw new IllegalStateException(error);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** What runs until the end. */
    private interface Loop {
        void run() throws ClientException;
    }
}
