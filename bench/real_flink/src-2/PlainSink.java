import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SupportsCommitter;

/** A sink of Flink 2.x that commits files. */
abstract class PlainSink implements Sink<byte[]>, SupportsCommitter<String> {}
