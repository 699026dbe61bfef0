import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Makes Flink's program of the stages and edges of a job. */
final class Topology {

    private final StreamExecutionEnvironment flink;
    private final Map<String, SingleOutputStreamOperator<byte[]>> built = new HashMap<>();

    private final String folder;

    private Topology(Configuration options, String folder) {
        this.folder = folder;
        flink = StreamExecutionEnvironment.getExecutionEnvironment(options);
    }

    /** One of the jobs; stages are in the order in which records reach them. */
    static JobGraph of(JsonNode job, JsonNode span, Configuration options) {
        Topology topology = new Topology(options, job.path("folder").asText());
        Set<String> names = new HashSet<>();
        span.get("stages").forEach(name -> names.add(name.asText()));
        for (JsonNode stage : job.get("stages")) {
            if (!names.contains(stage.get("name").asText())) {
                continue;
            }
            List<JsonNode> inputs = new ArrayList<>();
            for (JsonNode edge : job.get("edges")) {
                if (edge.get("to").equals(stage.get("name"))) {
                    inputs.add(edge);
                }
            }
            topology.add(stage, inputs);
        }
        return topology.flink.getStreamGraph().getJobGraph();
    }

    private void add(JsonNode stage, List<JsonNode> inputs) {
        String name = stage.get("name").asText();
        SingleOutputStreamOperator<byte[]> operator = inputs.isEmpty()
                ? flink.fromSource(new PacedSource(stage), Marks.of(stage), name)
                : union(inputs).flatMap(new Server(stage)).name(name);
        operator.returns(byte[].class).setParallelism(stage.get("parallelism").asInt());
        if (!stage.get("max_parallelism").isNull()) {
            operator.setMaxParallelism(stage.get("max_parallelism").asInt());
        }
        if (!inputs.isEmpty() && !stage.get("is_chained").asBoolean()) {
            operator.startNewChain();
        }
        place(operator, stage);
        if (stage.get("commits").asBoolean()) {
            operator.sinkTo(new FileSink(stage, folder))
                    .name(name + "_rows")
                    .setParallelism(stage.get("parallelism").asInt());
        }
        JsonNode requests = stage.get("requests");
        if (!requests.isNull() && stage.get("is_sink").asBoolean()) {
            operator.sinkTo(new AsyncSink(stage))
                    .name(name + "_requests")
                    .setParallelism(stage.get("parallelism").asInt());
        } else if (!requests.isNull()) {
            operator = Calls.behind(operator, stage)
                    .name(name + "_calls")
                    .returns(byte[].class)
                    .setParallelism(stage.get("parallelism").asInt());
        }
        if (!stage.get("window").isNull()) {
            operator = Windows.behind(operator, stage)
                    .name(name + "_window")
                    .setParallelism(stage.get("parallelism").asInt());
            if (!stage.get("max_parallelism").isNull()) {
                operator.setMaxParallelism(stage.get("max_parallelism").asInt());
            }
        }
        built.put(name, operator);
    }

    private DataStream<byte[]> union(List<JsonNode> inputs) {
        DataStream<byte[]> first = partitioned(inputs.get(0));
        for (JsonNode edge : inputs.subList(1, inputs.size())) {
            first = first.union(partitioned(edge));
        }
        return first;
    }

    private DataStream<byte[]> partitioned(JsonNode edge) {
        DataStream<byte[]> stream = built.get(edge.get("from").asText());
        switch (edge.get("partitioner").asText()) {
            case "forward":
                return stream.forward();
            case "rescale":
                return stream.rescale();
            case "shuffle":
                return stream.shuffle();
            case "broadcast":
                return stream.broadcast();
            case "global":
                return stream.global();
            case "hash":
                if (!edge.get("id_keys").isNull()) {
                    return stream.keyBy(
                            new IdKeys(edge.get("id_keys")),
                            org.apache.flink.api.common.typeinfo.Types.STRING);
                }
                return stream.keyBy(new Keys(edge), org.apache.flink.api.common.typeinfo.Types.STRING);
            case "custom":
                return stream.partitionCustom(
                        (key, channels) -> key, new Channels(edge.get("key_place").asInt()));
            default:
                return stream.rebalance();
        }
    }

    /** A slot sharing group of its own, on the task manager that has what it asks for. */
    private static void place(SingleOutputStreamOperator<byte[]> operator, JsonNode stage) {
        String group = stage.get("slot_group").asText();
        if (stage.get("task_manager").isNull()) {
            operator.slotSharingGroup(group);
            return;
        }
        operator.slotSharingGroup(
                SlotSharingGroup.newBuilder(group)
                        .setCpuCores(0.001)
                        .setTaskHeapMemoryMB(1)
                        .setExternalResource(
                                Cluster.resource(stage.get("task_manager").asInt()), 1)
                        .build());
    }
}
