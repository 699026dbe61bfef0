import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.CommittingSinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** Writes the ids of records into a file for each checkpoint, which readers see once committed. */
final class FileSink extends PlainSink {

    private final String folder;
    private final String name;
    private final long commitMs;

    FileSink(JsonNode stage, String folder) {
        this.folder = folder;
        name = stage.get("name").asText();
        commitMs = Math.round(stage.get("commit_ms").asDouble());
    }

    @Override
    public CommittingSinkWriter<byte[], String> createWriter(WriterInitContext context) {
        return new Writer(folder, name + "/" + context.getTaskInfo().getIndexOfThisSubtask());
    }

    @Override
    public Committer<String> createCommitter(CommitterInitContext context) {
        return new Renaming(name + "/" + context.getTaskInfo().getIndexOfThisSubtask(), commitMs);
    }

    @Override
    public SimpleVersionedSerializer<String> getCommittableSerializer() {
        return new Text();
    }

    /** One file is open at a time. */
    private static final class Writer implements CommittingSinkWriter<byte[], String> {

        private final String folder;
        private final String subtask;
        private Path path;
        private DataOutputStream open;

        Writer(String folder, String subtask) {
            this.folder = folder;
            this.subtask = subtask;
        }

        @Override
        public void write(byte[] record, Context context) throws IOException {
            if (open == null) {
                String own = subtask.replace('/', '-') + "-" + UUID.randomUUID() + ".open";
                path = Path.of(folder, own);
                open = new DataOutputStream(
                        new java.io.BufferedOutputStream(Files.newOutputStream(path)));
            }
            open.writeInt(Records.id(record));
        }

        @Override
        public void flush(boolean isEnd) {}

        @Override
        public Collection<String> prepareCommit() throws IOException {
            if (open == null) {
                return List.of();
            }
            open.close();
            open = null;
            return List.of(path.toString());
        }

        /** What is open is aborted: nobody sees the file. */
        @Override
        public void close() throws IOException {
            if (open != null) {
                open.close();
            }
        }
    }

    /** Renames what is committed; a file that is there already was committed before a failure. */
    private static final class Renaming implements Committer<String> {

        private final String subtask;
        private final long commitMs;

        Renaming(String subtask, long commitMs) {
            this.subtask = subtask;
            this.commitMs = commitMs;
        }

        @Override
        public void commit(Collection<CommitRequest<String>> requests)
                throws IOException, InterruptedException {
            for (CommitRequest<String> one : requests) {
                Path from = Path.of(one.getCommittable());
                Path to = Path.of(one.getCommittable().replace(".open", ".committed"));
                Thread.sleep(commitMs);
                if (Files.exists(to)) {
                    one.signalAlreadyCommitted();
                    continue;
                }
                Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
                Visible.add(subtask, Files.readAllBytes(to));
            }
        }

        @Override
        public void close() {}
    }

    private static final class Text implements SimpleVersionedSerializer<String> {

        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(String path) {
            return path.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(int version, byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }
}
