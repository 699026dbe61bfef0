import com.hazelcast.cluster.Address;
import com.hazelcast.config.Config;
import com.hazelcast.config.JoinConfig;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.function.SupplierEx;
import com.hazelcast.instance.BuildInfoProvider;
import com.hazelcast.jet.config.EdgeConfig;
import com.hazelcast.jet.core.AbstractProcessor;
import com.hazelcast.jet.core.DAG;
import com.hazelcast.jet.core.Edge;
import com.hazelcast.jet.core.Processor;
import com.hazelcast.jet.core.ProcessorMetaSupplier;
import com.hazelcast.jet.core.ProcessorSupplier;
import com.hazelcast.jet.core.Vertex;
import java.util.concurrent.CountDownLatch;

/**
 * Hazelcast Jet: two members, each stage on the other one than the stage before, so that every
 * edge has a receive window. An item is acknowledged when it has gone into the queue behind it.
 */
public final class Jet {

    /** Bytes of a serialised array besides its own: type and length. */
    private static final int HEADER_BYTES = 8;

    private static CountDownLatch ready;

    private Jet() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        String[] names = job.stages();
        ready = new CountDownLatch(names.length);
        System.setProperty("hazelcast.logging.type", "slf4j");
        System.setProperty("hazelcast.socket.bind.any", "false");
        HazelcastInstance[] members = {member(job), member(job)};
        DAG dag = new DAG();
        Vertex before = null;
        for (int i = 0; i < names.length; i++) {
            String name = names[i];
            boolean isLast = i + 1 == names.length;
            SupplierEx<Processor> make =
                    i == 0 ? () -> new Source(name) : () -> new Stage(name, isLast);
            Address place = members[i % 2].getCluster().getLocalMember().getAddress();
            Vertex vertex = dag.newVertex(name, ProcessorMetaSupplier.forceTotalParallelismOne(
                    ProcessorSupplier.of(make), place)).localParallelism(1);
            if (before != null) {
                dag.edge(Edge.between(before, vertex).distributeTo(place).allToOne(name).setConfig(
                        new EdgeConfig()
                                .setQueueSize(job.whole("queue_items"))
                                .setReceiveWindowMultiplier(job.whole("multiplier"))));
            }
            before = vertex;
        }
        members[0].getJet().newJob(dag);
        ready.await();
        Run.start();
        Run.toEnd("Hazelcast " + BuildInfoProvider.getBuildInfo().getVersion());
    }

    private static HazelcastInstance member(Job job) {
        Config config = new Config().setProperty("hazelcast.phone.home.enabled", "false");
        config.getJetConfig().setEnabled(true).setFlowControlPeriodMs(job.whole("period_ms"));
        config.getNetworkConfig().getInterfaces().setEnabled(true).addInterface("127.0.0.1");
        JoinConfig join = config.getNetworkConfig().getJoin();
        join.getAutoDetectionConfig().setEnabled(false);
        join.getTcpIpConfig().setEnabled(true).addMember("127.0.0.1");
        return Hazelcast.newHazelcastInstance(config);
    }

    /** Has a thread of its own, and is called again until its queue has taken its item. */
    private abstract static class OwnThread extends AbstractProcessor {
        @Override
        public boolean isCooperative() {
            return false;
        }

        @Override
        protected void init(Context context) {
            ready.countDown();
        }
    }

    private static final class Source extends OwnThread {
        private final String name;
        private final Pace pace;
        private final byte[] record;
        private boolean isPending;

        Source(String name) {
            this.name = name;
            pace = Run.pace(name);
            record = new byte[Math.max(0, Run.job.whole(name + ".bytes") - HEADER_BYTES)];
        }

        @Override
        public boolean complete() {
            if (!Clock.hasStarted()) {
                return false;
            }
            if (!isPending) {
                pace.await();
                Run.out(name);
            }
            isPending = !tryEmit(record);
            return false;
        }
    }

    private static final class Stage extends OwnThread {
        private final String name;
        private final boolean isLast;
        private final Service service;
        private boolean isPending;

        Stage(String name, boolean isLast) {
            this.name = name;
            this.isLast = isLast;
            service = Run.service(name);
        }

        @Override
        protected boolean tryProcess(int ordinal, Object record) {
            if (!isPending) {
                Run.serve(name, service);
            }
            isPending = !isLast && !tryEmit(record);
            return !isPending;
        }
    }
}
