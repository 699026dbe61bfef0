import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.utils.VersionInfo;

/** Storm 1 in one process, with its own ZooKeeper, and its back pressure switched on. */
public final class Storm1 {

    private Storm1() {}

    public static void main(String[] arguments) throws Exception {
        resolveUnresolved();
        Job job = Run.read(arguments);
        Map<String, Object> config = new HashMap<>();
        config.put(Config.TOPOLOGY_WORKERS, 1);
        config.put(Config.TOPOLOGY_ACKER_EXECUTORS, 0);
        config.put(Config.TOPOLOGY_BACKPRESSURE_ENABLE, true);
        config.put(Config.TOPOLOGY_EXECUTOR_RECEIVE_BUFFER_SIZE, job.whole("slots"));
        config.put(Config.BACKPRESSURE_DISRUPTOR_HIGH_WATERMARK, job.number("high"));
        config.put(Config.BACKPRESSURE_DISRUPTOR_LOW_WATERMARK, job.number("low"));
        new LocalCluster().submitTopology("real", config, Chain.of(job.stages()));
        Chain.await();
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
}
