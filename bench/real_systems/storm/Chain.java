import java.util.concurrent.CountDownLatch;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.topology.TopologyBuilder;

/** The topology of a job, for every Storm: a spout and its bolts. */
final class Chain {

    private static CountDownLatch missing;

    private Chain() {}

    static StormTopology of(String[] names) {
        missing = new CountDownLatch(names.length);
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout(names[0], new Source(names[0]), 1);
        for (int i = 1; i < names.length; i++) {
            builder.setBolt(names[i], new Stage(names[i], i + 1 == names.length), 1)
                    .shuffleGrouping(names[i - 1]);
        }
        return builder.createTopology();
    }

    /** One of its executors is there. */
    static void built() {
        missing.countDown();
    }

    /** Waits until all are. */
    static void await() throws InterruptedException {
        missing.await();
    }
}
