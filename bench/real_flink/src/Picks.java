import java.io.Serializable;
import java.util.Arrays;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** Chooses by weights, evenly spread: what is chosen never runs far ahead of its share. */
final class Picks implements Serializable {

    /** Multiples of it, without their whole parts, fill the interval evenly. */
    private static final double GOLDEN = 0.6180339887498949;

    private final double[] upTo;
    private double at;

    Picks(JsonNode weights, int subtask) {
        upTo = new double[weights.size()];
        double sum = 0;
        for (int i = 0; i < upTo.length; i++) {
            sum += weights.get(i).asDouble();
            upTo[i] = sum;
        }
        at = (subtask + 1) * Math.sqrt(2) % 1;
    }

    int next() {
        at = (at + GOLDEN) % 1;
        int found = Arrays.binarySearch(upTo, at * upTo[upTo.length - 1]);
        return Math.min(found < 0 ? -found - 1 : found + 1, upTo.length - 1);
    }
}
