import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerServiceDefinition;
import io.grpc.internal.GrpcUtil;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

/** gRPC: each stage but the source is a server; the one before streams its records to it. */
public final class Grpc {

    private static final MethodDescriptor<byte[], byte[]> METHOD =
            MethodDescriptor.<byte[], byte[]>newBuilder()
                    .setType(MethodDescriptor.MethodType.CLIENT_STREAMING)
                    .setFullMethodName("stage/take")
                    .setRequestMarshaller(new Bytes())
                    .setResponseMarshaller(new Bytes())
                    .build();

    private Grpc() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        String[] names = job.stages();
        Sender next = null;
        for (int i = names.length - 1; i > 0; i--) {
            next = new Sender(serve(job, names[i], next));
        }
        Sender first = next;
        Pace pace = Run.pace(names[0]);
        byte[] record = job.record(names[0]);
        Run.start();
        Thread source = new Thread(() -> {
            while (true) {
                first.awaitReady();
                pace.await();
                first.call.sendMessage(record);
                Run.out(names[0]);
            }
        });
        source.setDaemon(true);
        source.start();
        Run.toEnd("gRPC " + GrpcUtil.IMPLEMENTATION_VERSION);
    }

    /** Starts the server of a stage, which asks for one record at a time; returns its address. */
    private static InetSocketAddress serve(Job job, String name, Sender next) throws IOException {
        Service service = Run.service(name);
        InetSocketAddress any = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        NettyServerBuilder builder = NettyServerBuilder.forAddress(any)
                .initialFlowControlWindow(job.whole("initial"))
                .executor(Executors.newSingleThreadExecutor());
        Server server = builder.addService(ServerServiceDefinition.builder("stage").addMethod(
                METHOD, (call, headers) -> {
                    call.request(1);
                    return new ServerCall.Listener<byte[]>() {
                        @Override
                        public void onMessage(byte[] record) {
                            Run.serve(name, service);
                            if (next != null) {
                                next.awaitReady();
                                next.call.sendMessage(record);
                            }
                            call.request(1);
                        }
                    };
                }).build()).build().start();
        return (InetSocketAddress) server.getListenSockets().get(0);
    }

    /** The stream to a stage. */
    private static final class Sender extends ClientCall.Listener<byte[]> {

        private final ClientCall<byte[], byte[]> call;

        Sender(InetSocketAddress address) {
            call = NettyChannelBuilder.forAddress(address).usePlaintext().build()
                    .newCall(METHOD, CallOptions.DEFAULT);
            call.start(this, new Metadata());
            call.request(1);
        }

        @Override
        public synchronized void onReady() {
            notifyAll();
        }

        /** Waits until less than gRPC's 32 KiB wait for the window of the receiver. */
        synchronized void awaitReady() {
            try {
                while (!call.isReady()) {
                    wait();
                }
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Records as they are. */
    private static final class Bytes implements MethodDescriptor.Marshaller<byte[]> {

        @Override
        public InputStream stream(byte[] record) {
            return new ByteArrayInputStream(record);
        }

        @Override
        public byte[] parse(InputStream record) {
            try {
                return record.readAllBytes();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }
}
