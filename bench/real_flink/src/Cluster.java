import java.lang.reflect.Field;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** A Flink on loopback: all its task managers in this process, each with slots of its own. */
final class Cluster {

    private static final String SLOTS = "taskmanager.numberOfTaskSlots";

    private Cluster() {}

    /** Name of what only one task manager has, so that stages that ask for it run there. */
    static String resource(int taskManager) {
        return "tm" + taskManager;
    }

    /** Starts it; slots are those of each task manager. */
    static MiniCluster start(Configuration options, JsonNode slots, boolean arePlaced)
            throws Exception {
        int[] counts = new int[slots.size()];
        for (int i = 0; i < counts.length; i++) {
            counts[i] = slots.get(i).asInt();
        }
        MiniClusterConfiguration stated =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(options)
                        .setNumTaskManagers(arePlaced ? 0 : counts.length)
                        .setNumSlotsPerTaskManager(arePlaced ? 1 : counts[0])
                        .build();
        MiniCluster flink = new MiniCluster(stated);
        flink.start();
        for (int i = 0; arePlaced && i < counts.length; i++) {
            Map<String, Object> own = values(stated.getConfiguration());
            own.put(SLOTS, counts[i]);
            own.put("external-resources", resource(i));
            own.put("external-resource." + resource(i) + ".amount", (long) counts[i]);
            flink.startTaskManager();
        }
        return flink;
    }

    /**
     * The values that the next task manager is started with. A MiniCluster has one configuration,
     * which it keeps from changing, for all that it starts.
     */
    @SuppressWarnings("unchecked")
    private static Map<String, Object> values(Configuration unmodifiable) throws Exception {
        Field field = Configuration.class.getDeclaredField("confData");
        field.setAccessible(true);
        return (Map<String, Object>) field.get(unmodifiable);
    }
}
