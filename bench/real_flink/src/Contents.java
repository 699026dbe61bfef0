import org.apache.flink.api.common.functions.AggregateFunction;

/** What a window keeps: how many records it has. */
final class Contents implements AggregateFunction<byte[], Long, Long> {

    @Override
    public Long createAccumulator() {
        WindowFigures.hold(1);
        return 0L;
    }

    @Override
    public Long add(byte[] record, Long count) {
        WindowFigures.took(Records.stamp(record));
        return count + 1;
    }

    @Override
    public Long getResult(Long count) {
        return count;
    }

    @Override
    public Long merge(Long one, Long other) {
        WindowFigures.hold(-1);
        return one + other;
    }
}
