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

/**
 * Storm 2 in one process. A job that states how often flags are looked at has a worker for each
 * stage, with Storm's own connections between them; another has one worker, with queues that block.
 */
public final class Storm2 {

    private static CountDownLatch ready;

    private Storm2() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        String[] names = job.stages();
        boolean hasFlags = job.has("check_ms");
        ready = new CountDownLatch(names.length);
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout(names[0], new Source(names[0]), 1);
        for (int i = 1; i < names.length; i++) {
            builder.setBolt(names[i], new Stage(names[i], i + 1 == names.length), 1)
                    .shuffleGrouping(names[i - 1]);
        }
        Config config = new Config();
        config.setNumWorkers(hasFlags ? names.length : 1);
        config.setNumAckers(0);
        config.put(Config.TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_SIZE, job.whole("slots"));
        if (hasFlags) {
            config.put(Config.TOPOLOGY_BACKPRESSURE_CHECK_MILLIS, job.whole("check_ms"));
        }
        LocalCluster cluster = new LocalCluster.Builder()
                .withSupervisors(1)
                .withPortsPerSupervisor(names.length)
                .withDaemonConf(Config.STORM_LOCAL_HOSTNAME, "localhost")
                .withDaemonConf(Config.STORM_LOCAL_MODE_ZMQ, hasFlags)
                .build();
        cluster.submitTopology("real", config, builder.createTopology());
        ready.await();
        Run.start();
        Run.toEnd("Storm " + VersionInfo.getVersion());
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
        public void open(
                Map<String, Object> config, TopologyContext context, SpoutOutputCollector out) {
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
        public void prepare(Map<String, Object> config, TopologyContext context, OutputCollector out) {
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
