import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Updates.inc;

import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.model.UpdateOptions;
import java.io.IOException;
import java.util.List;
import java.util.stream.IntStream;
import org.bson.Document;

/** Inserts and counts with the Java driver until its input ends: see test_kills.py. Arguments: URI NAME. */
public final class Counting {
    private static final int WORKERS = 3;

    private volatile boolean isOver;

    private static synchronized void tell(Document what) {
        System.out.println(what.toJson());
        System.out.flush();
    }

    private void work(MongoDatabase database, String counter) {
        int done = 0;
        try {
            while (!isOver) {
                database.getCollection("numbers").insertOne(new Document("_id", counter + "-" + done));
                database.getCollection("counters").updateOne(eq(counter), inc("count", 1), new UpdateOptions().upsert(true));
                done++;
                tell(new Document("counter", counter).append("done", done));
                Thread.sleep(5);
            }
        } catch (InterruptedException | RuntimeException error) {
            tell(new Document("counter", counter).append("done", done).append("error", error.toString()));
        }
    }

    private void run(String uri, String name) throws InterruptedException, IOException {
        MongoClient client = MongoClients.create(uri);
        List<Thread> threads = IntStream.range(0, WORKERS)
                .mapToObj(worker -> new Thread(() -> work(client.getDatabase("kills"), name + "-" + worker)))
                .toList();
        threads.forEach(Thread::start);
        while (System.in.read() >= 0) {
            // What comes means nothing: its end is waited for.
        }
        isOver = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.exit(0);
    }

    public static void main(String[] arguments) throws InterruptedException, IOException {
        new Counting().run(arguments[0], arguments[1]);
    }
}
