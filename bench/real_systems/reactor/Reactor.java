import reactor.core.publisher.Flux;
import reactor.core.scheduler.Schedulers;

/** Project Reactor: each stage behind a publishOn, so that demand crosses a queue and a thread. */
public final class Reactor {

    private Reactor() {}

    public static void main(String[] arguments) throws Exception {
        Job job = Run.read(arguments);
        String[] names = job.stages();
        // Of this prefetch publishOn requests three quarters again, once so many were passed on.
        int prefetch = job.whole("slots");
        byte[] record = job.record(names[0]);
        Pace pace = Run.pace(names[0]);
        Flux<byte[]> stream = Flux.<byte[]>generate(sink -> {
            pace.await();
            Run.out(names[0]);
            sink.next(record);
        }).subscribeOn(Schedulers.newSingle(names[0]));
        for (int i = 1; i < names.length; i++) {
            String name = names[i];
            Service service = Run.service(name);
            stream = stream.publishOn(Schedulers.newSingle(name), prefetch).map(each -> {
                Run.serve(name, service);
                return each;
            });
        }
        Run.start();
        stream.subscribe();
        Run.toEnd("Reactor " + Flux.class.getPackage().getImplementationVersion());
    }
}
