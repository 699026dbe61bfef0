import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * Makes the records of a subtask, byte arrays of one length: when the first stage emitted it (8
 * bytes), in a job with event time its id (4 bytes), then for each edge by key which key it has (4
 * bytes), as far as there is room.
 */
final class Records {

    static final int STAMP_BYTES = 8;
    static final int KEY_BYTES = 4;
    /** Of a byte array in a buffer: 4 length, 1 tag, 8 timestamp, 4 length of the array. */
    static final int OVERHEAD_BYTES = 17;

    private final int payloadBytes;
    private final boolean haveIds;
    /** For each edge by key: which key the records have, in turn. */
    private final List<int[]> picks = new ArrayList<>();
    private int made;

    Records(JsonNode stage) {
        payloadBytes = stage.get("payload_bytes").asInt();
        haveIds = stage.get("have_ids").asBoolean();
        for (JsonNode own : stage.get("picks")) {
            int[] places = new int[own.size()];
            for (int i = 0; i < places.length; i++) {
                places[i] = own.get(i).asInt();
            }
            picks.add(places);
        }
    }

    byte[] make(long stampNs) {
        return make(stampNs, 0);
    }

    byte[] make(long stampNs, int id) {
        byte[] record = new byte[payloadBytes];
        ByteBuffer buffer = ByteBuffer.wrap(record);
        if (payloadBytes >= STAMP_BYTES) {
            buffer.putLong(stampNs);
        }
        if (haveIds) {
            buffer.putInt(id);
        }
        for (int[] own : picks) {
            buffer.putInt(own[made % own.length]);
        }
        made = made == Integer.MAX_VALUE ? 0 : made + 1;
        return record;
    }

    /** Size of a record as a scenario states it. */
    static int bytes(byte[] record) {
        return OVERHEAD_BYTES + record.length;
    }

    /** When the first stage emitted a record, nanoseconds since the start; -1: it does not say. */
    static long stamp(byte[] record) {
        return record.length < STAMP_BYTES ? -1 : ByteBuffer.wrap(record).getLong();
    }

    /** The id of a record of a job with event time. */
    static int id(byte[] record) {
        return ByteBuffer.wrap(record).getInt(STAMP_BYTES);
    }

    /** What a record made here says in the place of an id; 0: nothing. */
    int idOf(byte[] record) {
        return haveIds ? id(record) : 0;
    }

    /** Which key a record has for an edge, at a place behind its stamp. */
    static int key(byte[] record, int place) {
        return ByteBuffer.wrap(record).getInt(STAMP_BYTES + place * KEY_BYTES);
    }
}
