import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** Rates of a stage, as the job states them. */
final class Stated {

    private Stated() {}

    /** The schedule of [[at_us, rate], ...]. */
    static Schedule schedule(JsonNode phases) {
        double[] atUs = new double[phases.size()];
        double[] rate = new double[phases.size()];
        for (int i = 0; i < atUs.length; i++) {
            atUs[i] = phases.get(i).get(0).asDouble();
            rate[i] = phases.get(i).get(1).asDouble();
        }
        return new Schedule(atUs, rate);
    }

    /** The service of a subtask; without rates it takes no time. */
    static Service service(JsonNode stage, int subtask) {
        JsonNode rates = stage.get("rates");
        Schedule schedule = rates.isNull() ? null : schedule(rates.get(subtask));
        return new Service(schedule, new Work(stage, subtask)::next);
    }
}
