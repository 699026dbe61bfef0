import org.apache.flink.api.java.functions.KeySelector;

/** The channel of a record for one edge with a partitioner of the program's own. */
final class Channels implements KeySelector<byte[], Integer> {

    private final int place;

    Channels(int place) {
        this.place = place;
    }

    @Override
    public Integer getKey(byte[] record) {
        return Records.key(record, place);
    }
}
