// Stays connected with the Go driver for some seconds, under load, and prints what its monitors heard: see test_staying_connected.py.
//
// connected URI SECONDS HEARTBEAT_MS (0: the driver's default)
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const workers = 6

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	check(err)
	heartbeat, err := strconv.Atoi(os.Args[3])
	check(err)
	var cleared, unknown, failed, awaited, operations atomic.Int64
	pool := &event.PoolMonitor{Event: func(heard *event.PoolEvent) {
		if heard.Type == event.ConnectionPoolCleared {
			cleared.Add(1)
		}
	}}
	server := &event.ServerMonitor{
		ServerDescriptionChanged: func(heard *event.ServerDescriptionChangedEvent) {
			if heard.PreviousDescription.Kind != "Unknown" && heard.NewDescription.Kind == "Unknown" {
				unknown.Add(1)
			}
		},
		ServerHeartbeatFailed: func(*event.ServerHeartbeatFailedEvent) { failed.Add(1) },
		ServerHeartbeatSucceeded: func(heard *event.ServerHeartbeatSucceededEvent) {
			if heard.Awaited {
				awaited.Add(1)
			}
		},
	}
	settings := options.Client().ApplyURI(os.Args[1]).SetPoolMonitor(pool).SetServerMonitor(server)
	if heartbeat > 0 {
		settings.SetHeartbeatInterval(time.Duration(heartbeat) * time.Millisecond)
	}
	client, err := mongo.Connect(settings)
	check(err)
	things := client.Database("staying_connected").Collection("go")
	check(things.Drop(context.Background()))
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	errors := []string{}
	var lock sync.Mutex
	work := func(worker int) error {
		for time.Now().Before(end) {
			filter := bson.D{{Key: "_id", Value: worker}}
			increment := bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}
			if _, err := things.UpdateOne(context.Background(), filter, increment, options.UpdateOne().SetUpsert(true)); err != nil {
				return err
			}
			if err := things.FindOne(context.Background(), filter).Err(); err != nil {
				return err
			}
			operations.Add(2)
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	}
	var group sync.WaitGroup
	for worker := 0; worker < workers; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			if err := work(worker); err != nil {
				lock.Lock()
				errors = append(errors, err.Error())
				lock.Unlock()
			}
		}(worker)
	}
	group.Wait()
	printed, err := json.Marshal(map[string]any{
		"operations": operations.Load(), "errors": errors, "cleared": cleared.Load(), "unknown": unknown.Load(),
		"failed_heartbeats": failed.Load(), "awaited_heartbeats": awaited.Load(),
	})
	check(err)
	fmt.Println(string(printed))
}
