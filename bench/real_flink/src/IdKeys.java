import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** The key of a record at a window, which follows from its id as in the emulation. */
final class IdKeys implements KeySelector<byte[], String> {

    private final String[] names;
    /** First id of each key; empty: ids are divided evenly. */
    private final int[] firsts;
    private transient Map<String, Integer> places;

    IdKeys(JsonNode stated) {
        names = new String[stated.get("names").size()];
        Arrays.setAll(names, i -> stated.get("names").get(i).asText());
        firsts = new int[stated.get("firsts").size()];
        Arrays.setAll(firsts, i -> stated.get("firsts").get(i).asInt());
    }

    @Override
    public String getKey(byte[] record) {
        return names[place(Records.id(record))];
    }

    /** The first id that stands for a key: that of its results. */
    int idOf(String key) {
        if (places == null) {
            places = new HashMap<>();
            for (int i = 0; i < names.length; i++) {
                places.put(names[i], i);
            }
        }
        int place = places.get(key);
        long even = (((long) place << EventTimes.ID_BITS) + names.length - 1) / names.length;
        return firsts.length == 0 ? (int) even : firsts[place];
    }

    private int place(int id) {
        if (firsts.length == 0) {
            return (int) ((long) id * names.length >> EventTimes.ID_BITS);
        }
        // The last key that begins at the id or before: one that begins with it has no records.
        int low = 0;
        for (int high = firsts.length; high - low > 1; ) {
            int middle = (low + high) / 2;
            if (firsts[middle] <= id) {
                low = middle;
            } else {
                high = middle;
            }
        }
        return low;
    }
}
