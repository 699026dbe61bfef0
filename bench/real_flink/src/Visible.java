import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What the readers of sinks that commit see; all task managers share this process. */
final class Visible {

    /** When files were committed, s; by which subtask; rows, and those that were there before. */
    private static final List<Object[]> COMMITS = new ArrayList<>();

    private static final Map<String, Set<Integer>> IDS = new HashMap<>();

    private Visible() {}

    /** Notes the ids of a file that was committed. */
    static synchronized void add(String subtask, byte[] file) {
        String stage = subtask.substring(0, subtask.lastIndexOf('/'));
        Set<Integer> seen = IDS.computeIfAbsent(stage, key -> new HashSet<>());
        int again = 0;
        for (ByteBuffer ids = ByteBuffer.wrap(file); ids.hasRemaining(); ) {
            again += seen.add(ids.getInt()) ? 0 : 1;
        }
        COMMITS.add(new Object[] {Clock.seconds(), subtask, file.length / Integer.BYTES, again});
    }

    static synchronized List<Object[]> commits() {
        return new ArrayList<>(COMMITS);
    }
}
