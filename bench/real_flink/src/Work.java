import java.io.Serializable;
import java.util.Random;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** How much work each record is: 1 on average, always or as it is drawn. */
final class Work implements Serializable {

    private final String distribution;
    private final double sigma;
    private final Random random;

    Work(JsonNode stage, int subtask) {
        distribution = stage.get("service_time").asText();
        double cv = stage.get("service_time_cv").asDouble();
        sigma = Math.sqrt(Math.log(1 + cv * cv));
        random = new Random(31 * stage.get("seed").asLong() + subtask);
    }

    double next() {
        switch (distribution) {
            case "exponential":
                return -Math.log(1 - random.nextDouble());
            case "lognormal":
                return Math.exp(sigma * random.nextGaussian() - sigma * sigma / 2);
            default:
                return 1;
        }
    }
}
