// Sessions, transactions and retryable writes with the Go driver. Prints "done"; panics at the first surprise.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var background = context.Background()

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(what string, got, wanted int64) {
	if got != wanted {
		panic(fmt.Sprintf("%s: %d, not %d", what, got, wanted))
	}
}

// The next command of this name loses its connection.
func cut(client *mongo.Client, command string) {
	check(client.Database("admin").RunCommand(background, bson.D{
		{Key: "configureFailPoint", Value: "failCommand"},
		{Key: "mode", Value: bson.D{{Key: "times", Value: 1}}},
		{Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{command}}, {Key: "closeConnection", Value: true}}},
	}).Err())
}

func main() {
	client, err := mongo.Connect(options.Client().ApplyURI(os.Args[1]))
	check(err)
	things := client.Database("go_driver").Collection("things")
	check(things.Drop(background))
	count := func(ctx context.Context) int64 {
		found, err := things.CountDocuments(ctx, bson.D{})
		check(err)
		return found
	}

	cut(client, "insert")
	_, err = things.InsertOne(background, bson.D{{Key: "_id", Value: 1}, {Key: "n", Value: 0}})
	check(err)
	cut(client, "update")
	_, err = things.UpdateByID(background, 1, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
	check(err)
	expect("inserted once", count(background), 1)

	session, err := client.StartSession()
	check(err)
	defer session.EndSession(background)
	cut(client, "commitTransaction")
	_, err = session.WithTransaction(background, func(ctx context.Context) (any, error) {
		if _, err := things.InsertOne(ctx, bson.D{{Key: "_id", Value: 2}}); err != nil {
			return nil, err
		}
		expect("its own write", count(ctx), 2)
		expect("nobody else's view of it", count(background), 1)
		return things.UpdateByID(ctx, 1, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
	})
	check(err)
	expect("committed", count(background), 2)

	stopped := errors.New("stopped on purpose")
	_, err = session.WithTransaction(background, func(ctx context.Context) (any, error) {
		_, err := things.DeleteMany(ctx, bson.D{})
		check(err)
		return nil, stopped
	})
	if !errors.Is(err, stopped) {
		panic(err)
	}
	expect("aborted", count(background), 2)

	// Another transaction that writes the same document is in conflict, and may be tried again.
	check(session.StartTransaction())
	first := mongo.NewSessionContext(background, session)
	_, err = things.UpdateByID(first, 1, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
	check(err)
	other, err := client.StartSession()
	check(err)
	defer other.EndSession(background)
	check(other.StartTransaction())
	_, err = things.UpdateByID(mongo.NewSessionContext(background, other), 1, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
	var conflict mongo.ServerError
	if !errors.As(err, &conflict) || !conflict.HasErrorLabel("TransientTransactionError") {
		panic(fmt.Sprintf("no conflict: %v", err))
	}
	check(other.AbortTransaction(background))
	check(session.CommitTransaction(background))
	var found struct{ N int64 }
	check(things.FindOne(background, bson.D{{Key: "_id", Value: 1}}).Decode(&found))
	expect("increments", found.N, 3)

	snapshot, err := client.StartSession(options.Session().SetSnapshot(true))
	check(err)
	defer snapshot.EndSession(background)
	then := mongo.NewSessionContext(background, snapshot)
	expect("of a snapshot", count(then), 2)
	_, err = things.DeleteMany(background, bson.D{})
	check(err)
	expect("of the snapshot, later", count(then), 2)
	expect("of now", count(background), 0)
	check(client.Disconnect(background))
	fmt.Println("done")
}
