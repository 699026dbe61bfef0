import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.connector.base.sink.AsyncSinkBase;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** An asynchronous sink of Flink 1.x with the stated sizes. */
abstract class FlinkSink extends AsyncSinkBase<byte[], byte[]> {

    FlinkSink(JsonNode stated) {
        super(
                (record, context) -> record,
                stated.get("batch_records").asInt(),
                stated.get("in_flight").asInt(),
                stated.get("buffered").asInt(),
                stated.get("batch_bytes").asLong(),
                stated.get("buffer_ms").asLong(),
                stated.get("record_bytes_max").asLong(),
                stated.get("timeout_ms").asLong(),
                false);
    }

    /** Deprecated and abstract; Flink 1.20 calls the one with a WriterInitContext. */
    @Override
    @Deprecated
    public SinkWriter<byte[]> createWriter(Sink.InitContext context) {
        throw new UnsupportedOperationException();
    }
}
