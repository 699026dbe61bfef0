import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** A spout that emits at its rate, once the run has begun. */
final class Source extends BaseRichSpout {
    private final String name;
    private transient SpoutOutputCollector out;
    private transient Pace pace;
    private transient byte[] record;

    Source(String name) {
        this.name = name;
    }

    @Override
    @SuppressWarnings("rawtypes")
    public void open(Map config, TopologyContext context, SpoutOutputCollector out) {
        this.out = out;
        pace = Run.pace(name);
        record = Run.job.record(name);
        Chain.built();
    }

    @Override
    public void nextTuple() {
        if (!Clock.hasStarted()) {
            return;
        }
        pace.await();
        Run.out(name);
        out.emit(new Values((Object) record));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("record"));
    }
}
