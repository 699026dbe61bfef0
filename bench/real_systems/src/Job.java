import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/** What runs: stages in a chain, their rates, and options of the system; written by stated.py. */
final class Job {

    private final Properties stated = new Properties();

    Job(Path file) throws IOException {
        try (Reader reader = Files.newBufferedReader(file)) {
            stated.load(reader);
        }
    }

    String text(String key) {
        String found = stated.getProperty(key);
        if (found == null) {
            throw new IllegalArgumentException(key + " is not stated in the job");
        }
        return found;
    }

    boolean has(String key) {
        return stated.containsKey(key);
    }

    double number(String key) {
        return Double.parseDouble(text(key));
    }

    int whole(String key) {
        return Integer.parseInt(text(key));
    }

    /** Names of the stages, the source first. */
    String[] stages() {
        return text("stages").split(",");
    }

    /** Rates of a stage, records a second; null for one that takes no time. */
    Schedule rates(String stage) {
        return schedule(stage + ".rates");
    }

    /** What is written to the log of a source, records a second; null for one without a log. */
    Schedule arrivals(String stage) {
        return schedule(stage + ".arrivals");
    }

    private Schedule schedule(String key) {
        if (!has(key)) {
            return null;
        }
        String[] phases = text(key).split(",");
        double[] atUs = new double[phases.length];
        double[] rate = new double[phases.length];
        for (int i = 0; i < phases.length; i++) {
            String[] parts = phases[i].split(":");
            atUs[i] = Double.parseDouble(parts[0]);
            rate[i] = Double.parseDouble(parts[1]);
        }
        return new Schedule(atUs, rate);
    }

    /** A record of a stage. */
    byte[] record(String stage) {
        return new byte[whole(stage + ".bytes")];
    }
}
