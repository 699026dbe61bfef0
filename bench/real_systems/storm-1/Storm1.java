import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.VersionInfo;

/** Storm 1 in one process, with its own ZooKeeper, and its back pressure switched on. */
public final class Storm1 {

    private static CountDownLatch ready;

    private Storm1() {}

    public static void main(String[] arguments) throws Exception {
        resolveUnresolved();
        Job job = Run.read(arguments);
        String[] names = job.stages();
        ready = new CountDownLatch(names.length);
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout(names[0], new Source(names[0]), 1);
        for (int i = 1; i < names.length; i++) {
            builder.setBolt(names[i], new Stage(names[i], i + 1 == names.length), 1)
                    .shuffleGrouping(names[i - 1]);
        }
        Map<String, Object> config = new HashMap<>();
        config.put(Config.TOPOLOGY_WORKERS, 1);
        config.put(Config.TOPOLOGY_ACKER_EXECUTORS, 0);
        config.put(Config.TOPOLOGY_BACKPRESSURE_ENABLE, true);
        config.put(Config.TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_SIZE, job.whole("slots"));
        config.put(Config.BACKPRESSURE_DISRUPTOR_HIGH_WATERMARK, job.number("high"));
        config.put(Config.BACKPRESSURE_DISRUPTOR_LOW_WATERMARK, job.number("low"));
        new LocalCluster().submitTopology("real", config, builder.createTopology());
        ready.await();
        Run.start();
        Run.toEnd("Storm " + VersionInfo.getVersion());
    }

    /**
     * Lets ZooKeeper's client of that time find this machine: it cuts a host's name out of a text
     * that has had a different form since Java 14.
     */
    private static void resolveUnresolved() throws IOException {
        Path hosts = Files.createTempFile("hosts", null);
        hosts.toFile().deleteOnExit();
        String own = Files.readString(Path.of("/proc/sys/kernel/hostname")).trim();
        Files.writeString(hosts, "127.0.0.1 localhost localhost/<unresolved> " + own + "\n");
        System.setProperty("jdk.net.hosts.file", hosts.toString());
    }

    private static final class Source extends BaseRichSpout {
        private final String name;
        private transient SpoutOutputCollector out;
        private transient Pace pace;
        private transient byte[] record;

        Source(String name) {
            this.name = name;
        }

        @Override
        @SuppressWarnings("rawtypes")
        public void open(Map config, TopologyContext context, SpoutOutputCollector out) {
            this.out = out;
            pace = Run.pace(name);
            record = Run.job.record(name);
            ready.countDown();
        }

        @Override
        public void nextTuple() {
            if (!Clock.hasStarted()) {
                return;
            }
            pace.await();
            Run.out(name);
            out.emit(new Values((Object) record));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("record"));
        }
    }

    private static final class Stage extends BaseRichBolt {
        private final String name;
        private final boolean isLast;
        private transient OutputCollector out;
        private transient Service service;

        Stage(String name, boolean isLast) {
            this.name = name;
            this.isLast = isLast;
        }

        @Override
        @SuppressWarnings("rawtypes")
        public void prepare(Map config, TopologyContext context, OutputCollector out) {
            this.out = out;
            service = Run.service(name);
            ready.countDown();
        }

        @Override
        public void execute(Tuple tuple) {
            Run.serve(name, service);
            if (!isLast) {
                out.emit(tuple.getValues());
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("record"));
        }
    }
}
