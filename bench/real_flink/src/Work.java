import java.io.Serializable;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** How much work each record is: 1 on average, always or as it is drawn in the emulation. */
final class Work implements Serializable {

    private static final long GOLDEN = 0x9E3779B97F4A7C15L;
    private static final long FIRST = 0xBF58476D1CE4E5B9L;
    private static final long SECOND = 0x94D049BB133111EBL;

    private final String distribution;
    private final double variance;
    private final long stream;
    private long drawn;

    Work(JsonNode stage, int subtask) {
        distribution = stage.get("service_time").asText();
        double cv = stage.get("service_time_cv").asDouble();
        variance = Math.log(1 + cv * cv);
        long own = stage.get("streams").get(subtask).asLong();
        stream = stage.get("seed").asLong() * GOLDEN + own * FIRST;
    }

    double next() {
        long number = 2 * drawn++;
        switch (distribution) {
            case "exponential":
                return -Math.log1p(-uniform(number));
            case "lognormal":
                double radius = Math.sqrt(-2 * Math.log1p(-uniform(number)));
                double normal = radius * Math.cos(2 * Math.PI * uniform(number + 1));
                return Math.exp(Math.sqrt(variance) * normal - variance / 2);
            default:
                return 1;
        }
    }

    /** A number of the stream, uniform in [0, 1): SplitMix64, as in flowcontrol.layout.shares. */
    private double uniform(long number) {
        long z = (stream + number + 1) * GOLDEN;
        z = (z ^ (z >>> 30)) * FIRST;
        z = (z ^ (z >>> 27)) * SECOND;
        return ((z ^ (z >>> 31)) >>> 11) * 0x1.0p-53;
    }
}
