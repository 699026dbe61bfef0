import java.lang.reflect.Field;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** A Flink on loopback: all its task managers in this process, each with slots of its own. */
final class Cluster {

    private static final String SLOTS = "taskmanager.numberOfTaskSlots";

    private static int[] counts;
    /** The place of each task manager in the MiniCluster, which counts those that are gone too. */
    private static int[] places;
    private static int next;
    private static Map<String, Object> values;

    private Cluster() {}

    /** Name of what only one task manager has, so that stages that ask for it run there. */
    static String resource(int taskManager) {
        return "tm" + taskManager;
    }

    /** Starts it; slots are those of each task manager. */
    static MiniCluster start(Configuration options, JsonNode slots, boolean arePlaced)
            throws Exception {
        counts = new int[slots.size()];
        places = new int[slots.size()];
        next = slots.size();
        for (int i = 0; i < counts.length; i++) {
            counts[i] = slots.get(i).asInt();
            places[i] = i;
        }
        MiniClusterConfiguration stated =
                new MiniClusterConfiguration.Builder()
                        .setConfiguration(options)
                        .setNumTaskManagers(arePlaced ? 0 : counts.length)
                        .setNumSlotsPerTaskManager(arePlaced ? 1 : counts[0])
                        .build();
        MiniCluster flink = new MiniCluster(stated);
        flink.start();
        values = values(stated.getConfiguration());
        for (int i = 0; arePlaced && i < counts.length; i++) {
            startWhatHas(flink, i);
        }
        return flink;
    }

    private static void startWhatHas(MiniCluster flink, int taskManager) throws Exception {
        values.put(SLOTS, counts[taskManager]);
        values.put("external-resources", resource(taskManager));
        values.put(
                "external-resource." + resource(taskManager) + ".amount",
                (long) counts[taskManager]);
        flink.startTaskManager();
    }

    /** Ends a task manager, in a cluster in which stages are placed, and starts its successor. */
    static void replace(MiniCluster flink, int taskManager) {
        flink.terminateTaskManager(places[taskManager]);
        places[taskManager] = next++;
        try {
            startWhatHas(flink, taskManager);
        } catch (Exception failed) {
            throw new IllegalStateException(failed);
        }
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
