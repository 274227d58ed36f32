//! Commands that wait for a ticket, as `currentOp`, `killOp` and their own time limits see them.

use std::sync::Arc;
use std::time::Duration;

use bson::{Document, RawDocumentBuf, doc};
use parking_lot::Mutex;

use crate::request::declaration::Class;
use crate::state::admission::Algorithm;
use crate::test_server::{TestServer, send_as};
use crate::{Attempt, ClientContext, Dispatcher, Permission, ServerContext};

/// A server that lets one write run at a time, and its state.
fn narrow_server() -> (TestServer, Arc<ServerContext>) {
    let server = TestServer::new();
    let context = server.dispatcher.server().clone();
    context.admission.set_algorithm(Algorithm::Fixed);
    context.admission.set_limit(Class::Write, 1);
    (server, context)
}

fn insertion() -> Document {
    doc! {"insert": "c", "documents": [{"a": 1}], "maxTimeMS": 100}
}

/// Those that `currentOp` says are waiting.
fn queued(server: &mut TestServer) -> Vec<Document> {
    let reply = server.run("admin", doc! {"currentOp": 1, "currentQueue": {"$exists": true}});
    reply.get_array("inprog").unwrap().iter().map(|entry| entry.as_document().unwrap().clone()).collect()
}

/// A second client, whose insertion waits without a thread; what it is told will be there.
fn park(server: &TestServer, context: &Arc<ServerContext>) -> (ClientContext, Arc<Mutex<Option<Permission>>>) {
    let client = context.connect(2, "127.0.0.1:50001".to_owned());
    let body = RawDocumentBuf::try_from(&insertion()).unwrap();
    let need = server.dispatcher.need("insert", "db", &body, &client).unwrap();
    let told = Arc::new(Mutex::new(None));
    let tells = told.clone();
    context.call_back(need, move |permission| *tells.lock() = Some(permission));
    (client, told)
}

/// Runs the insertion with what its client was told; gives the code of its error.
fn go_on(server: &mut TestServer, mut client: ClientContext, told: &Mutex<Option<Permission>>) -> Option<i32> {
    client.permit(told.lock().take().unwrap());
    let first = std::mem::replace(&mut server.client, client);
    let reply = server.send("db", insertion(), Attempt::First).unwrap();
    server.client = first;
    reply.get_i32("code").ok()
}

#[test]
fn requests_that_wait_without_a_thread_are_listed_killed_and_timed() {
    let (mut server, context) = narrow_server();
    for (waits, is_killed, code) in [(50, false, None), (50, true, Some(11601)), (150, false, Some(50))] {
        let held = context.admission.admit(Class::Write, || false).unwrap();
        let (client, told) = park(&server, &context);
        server.clock.advance(Duration::from_millis(waits));
        let listed = queued(&mut server);
        assert_eq!(listed.len(), 1);
        let (operation, queue) = (&listed[0], listed[0].get_document("currentQueue").unwrap());
        assert_eq!((operation.get_str("ns").unwrap(), operation.get_str("op").unwrap()), ("db.c", "insert"));
        assert_eq!(*queue, doc! {"name": "execution", "timeQueuedMicros": waits as i64 * 1000});
        if is_killed {
            server.run("admin", doc! {"killOp": 1, "op": operation.get_i32("opid").unwrap()});
        }
        drop(held);
        assert_eq!(go_on(&mut server, client, &told), code);
        assert_eq!(queued(&mut server), []);
    }
    let count = server.run("db", doc! {"count": "c"});
    assert_eq!(count.get_i32("n").unwrap(), 1);
}

#[test]
fn refused_requests_are_listed_no_longer() {
    let (mut server, context) = narrow_server();
    let _held = context.admission.admit(Class::Write, || false).unwrap();
    let (client, told) = park(&server, &context);
    server.clock.advance(Duration::from_secs(2));
    context.refuse_overdue();
    assert_eq!(go_on(&mut server, client, &told), Some(462));
    let (client, told) = park(&server, &context);
    assert_eq!(queued(&mut server).len(), 1);
    // The connection ends.
    drop((client, told));
    server.clock.advance(Duration::from_secs(2));
    context.refuse_overdue();
    assert_eq!(queued(&mut server), []);
}

#[test]
fn threads_that_wait_are_listed() {
    let (mut server, context) = narrow_server();
    let held = context.admission.admit(Class::Write, || false).unwrap();
    let body = RawDocumentBuf::try_from(&insertion()).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut client = context.connect(2, "127.0.0.1:50001".to_owned());
            let dispatcher = Dispatcher::new(context.clone());
            send_as(&dispatcher, &mut client, "db", &body, Attempt::First).unwrap()
        });
        let listed = loop {
            let listed = queued(&mut server);
            if !listed.is_empty() {
                break listed;
            }
            std::thread::yield_now();
        };
        server.run("admin", doc! {"killOp": 1, "op": listed[0].get_i32("opid").unwrap()});
        drop(held);
        assert_eq!(waiting.join().unwrap().get_i32("code").unwrap(), 11601);
    });
    assert_eq!(queued(&mut server), []);
}
