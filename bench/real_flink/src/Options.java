import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** Flink's options: those that every run has, then those of the job. */
final class Options {

    private Options() {}

    static Configuration of(JsonNode stated) {
        Configuration options = new Configuration();
        // Free ports, loopback only, and all checkpoints kept in the history.
        options.setString("rest.bind-port", "0");
        options.setString("rest.address", "localhost");
        options.setString("taskmanager.host", "localhost");
        options.setString("web.checkpoints.history", "10000");
        options.setString("pipeline.auto-watermark-interval", "0");
        // A failure must end the measurement rather than begin another one.
        options.setString("restart-strategy.type", "none");
        // Persisted buffers go to memory: the disk of this machine is not what is measured.
        options.setString("execution.checkpointing.storage", "jobmanager");
        stated.fields().forEachRemaining(
                option -> options.setString(option.getKey(), option.getValue().asText()));
        return options;
    }
}
