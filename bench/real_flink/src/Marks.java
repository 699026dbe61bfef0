import java.time.Duration;
import org.apache.flink.api.common.eventtime.BoundedOutOfOrdernessWatermarks;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** Flink's watermarks of a source, as they are stated. */
final class Marks {

    private Marks() {}

    static WatermarkStrategy<byte[]> of(JsonNode stage) {
        JsonNode stated = stage.get("watermark");
        if (stated.isNull()) {
            return WatermarkStrategy.noWatermarks();
        }
        Duration delay = ms(stated, "delay_ms");
        WatermarkStrategy<byte[]> found =
                stated.get("punctuated").asBoolean()
                        ? WatermarkStrategy.forGenerator(context -> new Punctuated())
                        : WatermarkStrategy.forGenerator(
                                context -> new BoundedOutOfOrdernessWatermarks<>(delay));
        if (!stated.get("idle_ms").isNull()) {
            found = found.withIdleness(ms(stated, "idle_ms"));
        }
        JsonNode alignment = stated.get("alignment");
        return alignment.isNull()
                ? found
                : found.withWatermarkAlignment(
                        alignment.get("group").asText(),
                        ms(alignment, "drift_ms"),
                        ms(alignment, "interval_ms"));
    }

    private static Duration ms(JsonNode stated, String key) {
        return Duration.ofMillis(stated.get(key).asLong());
    }

    /** A watermark behind each record: its time. */
    private static final class Punctuated implements WatermarkGenerator<byte[]> {

        @Override
        public void onEvent(byte[] record, long time, WatermarkOutput output) {
            output.emitWatermark(new Watermark(time));
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }
}
