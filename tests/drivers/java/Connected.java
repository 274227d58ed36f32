import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Updates.inc;

import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.connection.ServerType;
import com.mongodb.event.ConnectionPoolClearedEvent;
import com.mongodb.event.ConnectionPoolListener;
import com.mongodb.event.ServerDescriptionChangedEvent;
import com.mongodb.event.ServerHeartbeatFailedEvent;
import com.mongodb.event.ServerHeartbeatSucceededEvent;
import com.mongodb.event.ServerListener;
import com.mongodb.event.ServerMonitorListener;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.bson.Document;

/**
 * Stays connected with the Java driver for some seconds, under load, and prints what its listeners heard: see
 * test_staying_connected.py. Arguments: URI SECONDS HEARTBEAT_MS (0: the driver's default).
 */
public final class Connected implements ConnectionPoolListener, ServerListener, ServerMonitorListener {
    private static final int WORKERS = 6;

    private final AtomicLong cleared = new AtomicLong();
    private final AtomicLong unknown = new AtomicLong();
    private final AtomicLong failedHeartbeats = new AtomicLong();
    private final AtomicLong awaitedHeartbeats = new AtomicLong();
    private final AtomicLong operations = new AtomicLong();
    private final List<String> errors = new CopyOnWriteArrayList<>();

    @Override
    public void connectionPoolCleared(ConnectionPoolClearedEvent event) {
        cleared.incrementAndGet();
    }

    @Override
    public void serverDescriptionChanged(ServerDescriptionChangedEvent event) {
        if (event.getPreviousDescription().getType() != ServerType.UNKNOWN
                && event.getNewDescription().getType() == ServerType.UNKNOWN) {
            unknown.incrementAndGet();
        }
    }

    @Override
    public void serverHeartbeatFailed(ServerHeartbeatFailedEvent event) {
        failedHeartbeats.incrementAndGet();
    }

    @Override
    public void serverHeartbeatSucceeded(ServerHeartbeatSucceededEvent event) {
        if (event.isAwaited()) {
            awaitedHeartbeats.incrementAndGet();
        }
    }

    private void work(MongoCollection<Document> things, int worker, long end) {
        try {
            while (System.nanoTime() < end) {
                things.updateOne(eq(worker), inc("n", 1), new UpdateOptions().upsert(true));
                things.find(eq(worker)).first();
                operations.addAndGet(2);
                Thread.sleep(20);
            }
        } catch (Exception error) {
            errors.add(error.toString());
        }
    }

    private MongoClientSettings settings(String uri, int heartbeat) {
        return MongoClientSettings.builder()
                .applyConnectionString(new ConnectionString(uri))
                .applyToConnectionPoolSettings(pool -> pool.addConnectionPoolListener(this))
                .applyToServerSettings(server -> {
                    server.addServerListener(this).addServerMonitorListener(this);
                    if (heartbeat > 0) {
                        server.heartbeatFrequency(heartbeat, TimeUnit.MILLISECONDS);
                    }
                })
                .build();
    }

    private void run(String uri, double seconds, int heartbeat) throws InterruptedException {
        MongoClient client = MongoClients.create(settings(uri, heartbeat));
        MongoCollection<Document> things = client.getDatabase("staying_connected").getCollection("java");
        things.drop();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        List<Thread> threads = IntStream.range(0, WORKERS)
                .mapToObj(worker -> new Thread(() -> work(things, worker, end)))
                .toList();
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(new Document("operations", operations.get())
                .append("errors", errors)
                .append("cleared", cleared.get())
                .append("unknown", unknown.get())
                .append("failed_heartbeats", failedHeartbeats.get())
                .append("awaited_heartbeats", awaitedHeartbeats.get())
                .toJson());
        System.exit(0);
    }

    public static void main(String[] arguments) throws InterruptedException {
        new Connected().run(arguments[0], Double.parseDouble(arguments[1]), Integer.parseInt(arguments[2]));
    }
}
