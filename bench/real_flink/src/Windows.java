import java.time.Duration;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.triggers.ContinuousEventTimeTrigger;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.triggers.EventTimeTrigger;
import org.apache.flink.streaming.api.windowing.triggers.PurgingTrigger;
import org.apache.flink.streaming.api.windowing.triggers.Trigger;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.api.windowing.windows.Window;
import org.apache.flink.util.Collector;

/** Flink's window operator behind the service of a stage; it counts the records of a window. */
final class Windows<W extends Window> extends ProcessWindowFunction<Long, byte[], String, W> {

    /** The stage as JSON text: a tree of Jackson is not serialisable in every version. */
    private final String stated;
    private final IdKeys keys;

    private transient WindowFigures figures;
    private transient Records records;
    private transient boolean isSink;
    /** Whether a window that fires is emptied; one that is over has fired then. */
    private transient boolean isPurged;

    private Windows(JsonNode stage, IdKeys keys) {
        stated = stage.toString();
        this.keys = keys;
    }

    /** The operator; the stage has the records of its keys already, so nothing is sent. */
    static SingleOutputStreamOperator<byte[]> behind(
            SingleOutputStreamOperator<byte[]> stream, JsonNode stage) {
        return with(stream, stage, assigner(stage.get("window")));
    }

    @SuppressWarnings("unchecked")
    private static <W extends Window> SingleOutputStreamOperator<byte[]> with(
            SingleOutputStreamOperator<byte[]> stream,
            JsonNode stage,
            WindowAssigner<Object, W> assigner) {
        JsonNode own = stage.get("window");
        IdKeys keys = new IdKeys(own.get("keys"));
        KeyedStream<byte[], String> keyed =
                DataStreamUtils.reinterpretAsKeyedStream(
                        stream, keys, Types.STRING);
        WindowedStream<byte[], String, W> windowed =
                keyed.window(assigner).trigger((Trigger<Object, W>) trigger(own));
        if (own.get("lateness_ms").asLong() > 0) {
            windowed = windowed.allowedLateness(ms(own, "lateness_ms"));
        }
        return windowed.aggregate(
                new Contents(),
                new Windows<>(stage, keys),
                Types.LONG,
                Types.LONG,
                PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
    }

    private static WindowAssigner<Object, ? extends Window> assigner(JsonNode own) {
        switch (own.get("kind").asText()) {
            case "tumbling":
                return TumblingEventTimeWindows.of(ms(own, "size_ms"), ms(own, "offset_ms"));
            case "sliding":
                return SlidingEventTimeWindows.of(
                        ms(own, "size_ms"), ms(own, "slide_ms"), ms(own, "offset_ms"));
            case "session":
                return assigned(EventTimeSessionWindows.withGap(ms(own, "gap_ms")));
            default:
                return assigned(GlobalWindows.create());
        }
    }

    private static <W extends Window> WindowAssigner<Object, W> assigned(
            WindowAssigner<Object, W> assigner) {
        return assigner;
    }

    private static Trigger<?, ?> trigger(JsonNode own) {
        Trigger<Object, ?> found;
        switch (own.get("trigger").asText()) {
            case "count":
                found = countOf(own.get("every").asLong());
                break;
            case "continuous":
                found = continuousOf(ms(own, "every"));
                break;
            default:
                found = EventTimeTrigger.create();
        }
        return own.get("accumulate").asBoolean() ? found : purging(found);
    }

    private static Trigger<Object, TimeWindow> countOf(long every) {
        return CountTrigger.of(every);
    }

    private static Trigger<Object, TimeWindow> continuousOf(Duration every) {
        return ContinuousEventTimeTrigger.of(every);
    }

    private static <W extends Window> Trigger<Object, W> purging(Trigger<Object, W> trigger) {
        return PurgingTrigger.of(trigger);
    }

    private static Duration ms(JsonNode stated, String key) {
        return Duration.ofMillis(stated.get(key).asLong());
    }

    @Override
    public void open(OpenContext context) throws Exception {
        JsonNode stage = new ObjectMapper().readTree(stated);
        int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        figures = WindowFigures.begin(stage.get("name").asText(), subtask);
        records = new Records(stage);
        isSink = stage.get("is_sink").asBoolean();
        isPurged = !stage.get("window").get("accumulate").asBoolean();
    }

    @Override
    public void process(
            String key, Context context, Iterable<Long> contents, Collector<byte[]> out) {
        if (isPurged) {
            WindowFigures.hold(-1);
        }
        W window = context.window();
        boolean isBounded = window instanceof TimeWindow;
        figures.fired(
                isBounded ? ((TimeWindow) window).getStart() : Long.MAX_VALUE,
                isBounded ? ((TimeWindow) window).getEnd() : Long.MAX_VALUE,
                key,
                contents.iterator().next());
        if (!isSink) {
            out.collect(records.make(figures.stampNs(), keys.idOf(key)));
        }
    }

    @Override
    public void clear(Context context) {
        if (!isPurged) {
            WindowFigures.hold(-1);
        }
    }
}
