import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.utils.VersionInfo;

/**
 * Storm 2 in one process. A job that states how often flags are looked at has a worker for each
 * stage, with Storm's own connections between them; another has one worker, with queues that block.
 */
public final class Storm2 {

    private Storm2() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        String[] names = job.stages();
        boolean hasFlags = job.has("check_ms");
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
        cluster.submitTopology("real", config, Chain.of(names));
        Chain.await();
        Run.start();
        Run.toEnd("Storm " + VersionInfo.getVersion());
    }
}
