import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Updates.inc;

import com.mongodb.ClientSessionOptions;
import com.mongodb.MongoException;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import java.util.List;
import org.bson.Document;

/** Sessions, transactions and retryable writes with the Java driver. Prints "done"; throws at the first surprise. */
public final class Sessions {
    private static void expect(String what, long got, long wanted) {
        if (got != wanted) {
            throw new AssertionError(what + ": " + got + ", not " + wanted);
        }
    }

    /** The next command of this name loses its connection. */
    private static void cut(MongoClient client, String command) {
        Document data = new Document("failCommands", List.of(command)).append("closeConnection", true);
        client.getDatabase("admin")
                .runCommand(new Document("configureFailPoint", "failCommand")
                        .append("mode", new Document("times", 1))
                        .append("data", data));
    }

    public static void main(String[] arguments) {
        try (MongoClient client = MongoClients.create(arguments[0])) {
            MongoCollection<Document> things = client.getDatabase("java_driver").getCollection("things");
            things.drop();
            cut(client, "insert");
            things.insertOne(new Document("_id", 1).append("n", 0));
            cut(client, "update");
            things.updateOne(eq(1), inc("n", 1));
            expect("inserted once", things.countDocuments(), 1);
            try (ClientSession session = client.startSession()) {
                cut(client, "commitTransaction");
                session.withTransaction(() -> {
                    things.insertOne(session, new Document("_id", 2));
                    expect("its own write", things.countDocuments(session), 2);
                    expect("nobody else's view of it", things.countDocuments(), 1);
                    return things.updateOne(session, eq(1), inc("n", 1));
                });
                expect("committed", things.countDocuments(), 2);
                session.startTransaction();
                things.deleteMany(session, new Document());
                session.abortTransaction();
                expect("aborted", things.countDocuments(), 2);
                conflict(client, things, session);
            }
            expect("increments", things.find(eq(1)).first().getInteger("n"), 3);
            ClientSessionOptions snapshots = ClientSessionOptions.builder().snapshot(true).build();
            try (ClientSession snapshot = client.startSession(snapshots)) {
                expect("of a snapshot", things.countDocuments(snapshot), 2);
                things.deleteMany(new Document());
                expect("of the snapshot, later", things.countDocuments(snapshot), 2);
            }
            expect("of now", things.countDocuments(), 0);
        }
        System.out.println("done");
    }

    /** Another transaction that writes the same document is in conflict, and may be tried again. */
    private static void conflict(MongoClient client, MongoCollection<Document> things, ClientSession session) {
        session.startTransaction();
        things.updateOne(session, eq(1), inc("n", 1));
        try (ClientSession other = client.startSession()) {
            other.startTransaction();
            try {
                things.updateOne(other, eq(1), inc("n", 1));
                throw new AssertionError("no conflict");
            } catch (MongoException error) {
                if (!error.hasErrorLabel(MongoException.TRANSIENT_TRANSACTION_ERROR_LABEL)) {
                    throw error;
                }
            }
            other.abortTransaction();
        }
        session.commitTransaction();
    }
}
