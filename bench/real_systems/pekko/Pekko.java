import com.typesafe.config.ConfigFactory;
import java.util.Iterator;
import org.apache.pekko.NotUsed;
import org.apache.pekko.Version;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.stream.ActorAttributes;
import org.apache.pekko.stream.Attributes;
import org.apache.pekko.stream.javadsl.Flow;
import org.apache.pekko.stream.javadsl.Sink;
import org.apache.pekko.stream.javadsl.Source;

/** Pekko Streams: each stage an island of its own, so that demand crosses a boundary. */
public final class Pekko {

    private Pekko() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        String[] names = job.stages();
        int slots = job.whole("slots");
        String blocking = "one-thread {type = PinnedDispatcher, executor = thread-pool-executor}";
        ActorSystem system = ActorSystem.create(
                "real", ConfigFactory.parseString(blocking).withFallback(ConfigFactory.load()));
        Attributes island = Attributes.inputBuffer(slots, slots)
                .and(ActorAttributes.dispatcher("one-thread"));
        byte[] record = job.record(names[0]);
        Pace pace = Run.pace(names[0]);
        Source<byte[], NotUsed> stream = Source.<byte[]>fromIterator(() -> new Iterator<>() {
            @Override
            public boolean hasNext() {
                return true;
            }

            @Override
            public byte[] next() {
                pace.await();
                Run.out(names[0]);
                return record;
            }
        }).withAttributes(island).async();
        for (int i = 1; i < names.length; i++) {
            String name = names[i];
            Service service = Run.service(name);
            Flow<byte[], byte[], NotUsed> stage = Flow.<byte[]>create().map(each -> {
                Run.serve(name, service);
                return each;
            });
            stream = stream.via(stage.withAttributes(island).async());
        }
        Run.start();
        stream.runWith(Sink.ignore(), system);
        Run.toEnd("Pekko " + Version.current());
    }
}
