// Debezium's connector for MongoDB, embedded: it takes a snapshot of a shop's orders and then follows their change stream; stopped and started again, it goes on where it was.
// Called by test_applications.py with the address of a replica set. Prints "done" at the end.

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.Updates;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.bson.Document;

public class Capture {
    private static final long SECONDS_MAX = 60;

    private final BlockingQueue<String> captured = new LinkedBlockingQueue<>();
    private final ExecutorService executor = Executors.newSingleThreadExecutor();
    private final CompletableFuture<String> failure = new CompletableFuture<>();
    private final DebeziumEngine<ChangeEvent<String, String>> engine;

    private Capture(String uri, String folder) {
        Properties properties = new Properties();
        properties.setProperty("name", "shop");
        properties.setProperty("connector.class", "io.debezium.connector.mongodb.MongoDbConnector");
        properties.setProperty("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
        properties.setProperty("offset.storage.file.filename", folder + "/offsets");
        properties.setProperty("offset.flush.interval.ms", "0");
        properties.setProperty("mongodb.connection.string", uri);
        properties.setProperty("topic.prefix", "shop");
        properties.setProperty("collection.include.list", "shop.orders");
        properties.setProperty("capture.mode", "change_streams_update_full");
        engine = DebeziumEngine.create(Json.class)
            .using(properties)
            .using((isSuccess, message, error) -> {
                if (!isSuccess) {
                    failure.complete(message + ": " + error);
                }
            })
            .notifying(event -> captured.add(event.value() == null ? "deleted" : event.value()))
            .build();
        executor.execute(engine);
    }

    /** What came next, as its operation and the document's status. */
    private String next() throws Exception {
        for (long waited = 0; waited < SECONDS_MAX; waited++) {
            String event = captured.poll(1, TimeUnit.SECONDS);
            if (failure.isDone()) {
                throw new IllegalStateException(failure.get());
            }
            if (event == null || event.equals("deleted")) {
                continue;
            }
            Document payload = Document.parse(event).get("payload", Document.class);
            String after = payload.getString("after");
            String status = after == null ? "-" : Document.parse(after).getString("status");
            return payload.getString("op") + " " + status;
        }
        throw new IllegalStateException("nothing came for " + SECONDS_MAX + " s");
    }

    private void expect(String... events) throws Exception {
        List<String> found = new ArrayList<>();
        for (String ignored : events) {
            found.add(next());
        }
        if (!found.equals(List.of(events))) {
            throw new IllegalStateException(found + " came, not " + List.of(events));
        }
    }

    private void stop() throws Exception {
        engine.close();
        executor.shutdown();
        if (!executor.awaitTermination(SECONDS_MAX, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the engine does not end");
        }
    }

    public static void main(String[] arguments) throws Exception {
        String uri = arguments[0];
        try (MongoClient client = MongoClients.create(uri)) {
            MongoCollection<Document> orders = client.getDatabase("shop").getCollection("orders");
            orders.insertOne(new Document("_id", 1).append("status", "before"));
            Capture first = new Capture(uri, arguments[1]);
            first.expect("r before");
            orders.insertOne(new Document("_id", 2).append("status", "new"));
            orders.updateOne(Filters.eq(2), Updates.set("status", "paid"));
            orders.deleteOne(Filters.eq(1));
            first.expect("c new", "u paid", "d -");
            first.stop();
            orders.updateOne(Filters.eq(2), Updates.set("status", "sent"));
            Capture second = new Capture(uri, arguments[1]);
            second.expect("u sent");
            second.stop();
        }
        System.out.println("done");
    }
}
