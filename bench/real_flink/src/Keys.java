import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** The key of a record for one edge: a text, which Flink hashes into a key group. */
final class Keys implements KeySelector<byte[], String> {

    private final int place;
    private final String[] names;

    Keys(JsonNode edge) {
        place = edge.get("key_place").asInt();
        names = new String[edge.get("keys").size()];
        for (int i = 0; i < names.length; i++) {
            names[i] = edge.get("keys").get(i).asText();
        }
    }

    @Override
    public String getKey(byte[] record) {
        return names[Records.key(record, place)];
    }
}
