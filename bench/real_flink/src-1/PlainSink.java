import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.SupportsCommitter;

/** A sink of Flink 1.x that commits files. */
abstract class PlainSink implements Sink<byte[]>, SupportsCommitter<String> {

    /** Deprecated and abstract; Flink 1.20 calls the one with a WriterInitContext. */
    @Override
    @Deprecated
    public SinkWriter<byte[]> createWriter(Sink.InitContext context) {
        throw new UnsupportedOperationException();
    }
}
