import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.concurrent.TimeUnit;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * When the records of a source happened, and their ids: those that the emulation gives them. A
 * stamp is an event time, milliseconds since the start, above the bits of an id.
 */
final class EventTimes {

    static final int ID_BITS = 21;

    private final ByteBuffer stamps;
    /** Whether stamps hold the whole time; else the time of the emission is added. */
    private final boolean areWhole;

    private EventTimes(JsonNode stated, int subtask) {
        String text = stated.get("stamps").get(subtask).asText();
        stamps = ByteBuffer.wrap(Base64.getDecoder().decode(text));
        areWhole = stated.get("are_whole").asBoolean();
    }

    /** Those of a subtask; null in a job without event time. */
    static EventTimes of(JsonNode stage, int subtask) {
        JsonNode stated = stage.get("event_times");
        return stated.isNull() ? null : new EventTimes(stated, subtask);
    }

    /** When the record of a number happened, milliseconds since the start; it is emitted now. */
    long time(long number) {
        long own = stamp(number) >> ID_BITS;
        return areWhole ? own : own + TimeUnit.NANOSECONDS.toMillis(Clock.now());
    }

    /** The id of a record, from which its key follows. */
    int id(long number) {
        return (int) stamp(number) & (1 << ID_BITS) - 1;
    }

    /** Behind the last one, which a run does not reach but for its last moments, they repeat. */
    private long stamp(long number) {
        return stamps.getLong((int) (number * Long.BYTES % stamps.capacity()));
    }
}
