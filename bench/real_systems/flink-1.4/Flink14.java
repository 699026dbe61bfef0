import java.util.concurrent.CountDownLatch;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.LocalStreamEnvironment;
import org.apache.flink.streaming.api.functions.sink.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.RichSourceFunction;

/** Flink 1.4: a task manager for each stage, and TCP alone between them. */
public final class Flink14 {

    /** Bytes of a serialised array besides its own: the length of the record, and its own. */
    private static final int HEADER_BYTES = 8;

    private static CountDownLatch ready;

    private Flink14() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        String[] names = job.stages();
        ready = new CountDownLatch(names.length);
        Configuration config = new Configuration();
        config.setInteger("local.number-taskmanager", names.length);
        config.setInteger("taskmanager.numberOfTaskSlots", 1);
        config.setInteger("taskmanager.network.memory.min", 16 << 20);
        config.setInteger("taskmanager.network.memory.max", 16 << 20);
        config.setInteger("taskmanager.memory.size", 16);
        // A connection has a buffer at each end. Linux doubles what is set, and of that a third
        // goes into what it needs besides the bytes themselves.
        int socketBytes = job.whole("kernel_bytes") * 3 / 8;
        config.setInteger("taskmanager.net.sendReceiveBufferSize", socketBytes);
        LocalStreamEnvironment flink = new LocalStreamEnvironment(config);
        flink.setParallelism(1);
        flink.getConfig().disableSysoutLogging();
        DataStream<byte[]> stream =
                flink.addSource(new Source(names[0])).slotSharingGroup(names[0]);
        for (int i = 1; i + 1 < names.length; i++) {
            stream = stream.map(new Stage(names[i])).disableChaining().slotSharingGroup(names[i]);
        }
        String last = names[names.length - 1];
        stream.addSink(new Last(last)).disableChaining().slotSharingGroup(last);
        new Thread(() -> execute(flink)).start();
        ready.await();
        Run.start();
        Run.toEnd("Flink " + EnvironmentInformation.getVersion());
    }

    private static void execute(LocalStreamEnvironment flink) {
        try {
            flink.execute();
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static final class Source extends RichSourceFunction<byte[]> {
        private final String name;

        Source(String name) {
            this.name = name;
        }

        @Override
        public void run(SourceContext<byte[]> out) throws Exception {
            ready.countDown();
            while (!Clock.hasStarted()) {
                Thread.sleep(1);
            }
            Pace pace = Run.pace(name);
            byte[] record = new byte[Run.job.whole(name + ".bytes") - HEADER_BYTES];
            while (!Thread.currentThread().isInterrupted()) {
                pace.await();
                Run.out(name);
                out.collect(record);
            }
        }

        @Override
        public void cancel() {}
    }

    private static final class Stage extends RichMapFunction<byte[], byte[]> {
        private final String name;
        private transient Service service;

        Stage(String name) {
            this.name = name;
        }

        @Override
        public void open(Configuration config) {
            service = Run.service(name);
            ready.countDown();
        }

        @Override
        public byte[] map(byte[] record) {
            Run.serve(name, service);
            return record;
        }
    }

    private static final class Last extends RichSinkFunction<byte[]> {
        private final String name;
        private transient Service service;

        Last(String name) {
            this.name = name;
        }

        @Override
        public void open(Configuration config) {
            service = Run.service(name);
            ready.countDown();
        }

        @Override
        public void invoke(byte[] record, Context context) {
            Run.serve(name, service);
        }
    }
}
