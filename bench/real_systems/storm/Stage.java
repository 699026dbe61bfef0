import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;

/** A bolt that takes the time of its records. */
final class Stage extends BaseRichBolt {
    private final String name;
    private final boolean isLast;
    private transient OutputCollector out;
    private transient Service service;

    Stage(String name, boolean isLast) {
        this.name = name;
        this.isLast = isLast;
    }

    @Override
    @SuppressWarnings("rawtypes")
    public void prepare(Map config, TopologyContext context, OutputCollector out) {
        this.out = out;
        service = Run.service(name);
        Chain.built();
    }

    @Override
    public void execute(Tuple tuple) {
        Run.serve(name, service);
        if (!isLast) {
            out.emit(tuple.getValues());
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("record"));
    }
}
