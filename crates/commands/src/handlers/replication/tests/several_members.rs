//! A set of several members as a client of one of them sees it: who leads is said by a stand-in for the program around.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bson::doc;
use parking_lot::Mutex;
use platform::Timestamp;
use transaction::{Leadership, Store};

use super::*;
use crate::{LogTrimming, MemberLook, SetLook, SetMembers, StepDown, StepDownRefused};

/// What the program would say.
#[derive(Default)]
struct Program {
    leads: AtomicBool,
    changes: AtomicU64,
    /// How many others have applied everything.
    others: AtomicU64,
    /// This server has not caught up since its start.
    is_catching_up: AtomicBool,
    /// The log falls silent to this store while news are waited for.
    falls_silent: Mutex<Option<Arc<Store>>>,
    asked: Mutex<Vec<String>>,
}

impl Program {
    fn set_leads(&self, leads: bool) {
        self.leads.store(leads, Ordering::Release);
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

impl SetMembers for Program {
    fn leads(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    fn role_changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn address(&self) -> &str {
        "db2:1"
    }

    fn term(&self) -> u64 {
        7
    }

    fn look(&self) -> Arc<SetLook> {
        let member = |host: &str| MemberLook {
            host: host.to_owned(),
            is_self: host == "db2:1",
            leads: (host == "db2:1") == self.leads(),
            is_alive: host != "db3:1",
            applied: Timestamp::new(9, 1),
            applied_position: 100,
            durable_position: 90,
            lag: Duration::from_millis(1_500),
            is_frozen: host == "db3:1",
            is_catching_up: host == "db4:1" || (host == "db2:1" && self.is_catching_up.load(Ordering::Acquire)),
            heard_millis: 5,
            tags: vec![("dc".to_owned(), host.to_owned())],
        };
        let primary = if self.leads() { "db2:1" } else { "db1:1" };
        Arc::new(SetLook {
            primary: Some(primary.to_owned()),
            members: ["db1:1", "db2:1", "db3:1"].map(member).into(),
            joining: vec![member("db4:1")],
            wait_for_copy: vec!["db5:1".to_owned()],
            next_record: 17,
            needed_record: 11,
            log_complaints: vec!["retention.ms is 1".to_owned()],
            trimming: LogTrimming { first_record: Some(9), trims: 2, records: 9, copies: 1, kept_because: None },
        })
    }

    fn have_applied(&self, _position: u64) -> usize {
        1 + self.others.load(Ordering::Acquire) as usize
    }

    fn wait_for_news(&self, _longest: Duration) {
        self.asked.lock().push("news".to_owned());
        match &*self.falls_silent.lock() {
            Some(store) => store.set_leadership(Leadership::Stalled),
            None => drop(self.others.fetch_add(1, Ordering::AcqRel)),
        }
    }

    fn step_down(&self, how: &StepDown) -> std::result::Result<(), StepDownRefused> {
        self.asked.lock().push(format!("step down {:?}", how.longest));
        if how.is_forced { Ok(()) } else { Err(StepDownRefused::NobodyElse) }
    }

    fn freeze(&self, longest: Duration) {
        self.asked.lock().push(format!("freeze {longest:?}"));
    }

    fn withdraw(&self, host: &str) -> std::result::Result<(), String> {
        self.asked.lock().push(format!("withdraw {host}"));
        Ok(())
    }
}

fn facts() -> ReplicaSetFacts {
    let (name, address) = ("rs0".to_owned(), "127.0.0.1:1".to_owned());
    ReplicaSetFacts { name, advertised: None, address, initiation: Initiation::Automatic }
}

fn counter(reply: &Document) -> i64 {
    reply.get_document("topologyVersion").unwrap().get_i64("counter").unwrap()
}

#[test]
fn a_secondary_names_the_others_and_refuses_what_is_the_primarys() {
    let program = Arc::new(Program::default());
    let mut server = TestServer::of_members(facts(), program.clone());
    let hello = server.run("admin", doc! {"hello": 1});
    assert!(!hello.get_bool("isWritablePrimary").unwrap() && hello.get_bool("secondary").unwrap());
    assert_eq!(hello.get_array("hosts").unwrap().len(), 3);
    assert_eq!((hello.get_str("me").unwrap(), hello.get_str("primary").unwrap()), ("db2:1", "db1:1"));
    assert_eq!(hello.get_document("tags").unwrap(), &doc! {"dc": "db2:1"});
    assert!(!hello.contains_key("electionId"));
    let refused = server.send("test", doc! {"insert": "c", "documents": [{"a": 1}]}, Attempt::First).unwrap();
    assert_eq!(refused.get_i32("code").unwrap(), 10107);
    assert_eq!(server.fail("test", doc! {"find": "c"}).0, 13435);
    server.run("test", doc! {"find": "c", "$readPreference": {"mode": "secondary"}});
    let status = server.run("admin", doc! {"replSetGetStatus": 1});
    let states: Vec<i32> = status
        .get_array("members")
        .unwrap()
        .iter()
        .map(|member| member.as_document().unwrap().get_i32("state").unwrap())
        .collect();
    assert_eq!(states, [1, 2, 8]);
    server.run("admin", doc! {"replSetFreeze": 5});
    assert_eq!(*program.asked.lock(), ["freeze 5s"]);
    assert_eq!(server.fail("admin", doc! {"replSetSyncFrom": "db1:1"}).0, 238);
    assert_eq!(server.fail("admin", doc! {"replSetReconfig": {}}).0, 10107);
}

#[test]
fn a_member_that_catches_up_again_is_listed_and_is_none_to_read_from() {
    let program = Arc::new(Program::default());
    program.is_catching_up.store(true, Ordering::Release);
    let mut server = TestServer::of_members(facts(), program.clone());
    let hello = server.run("admin", doc! {"hello": 1});
    assert_eq!(hello.get_array("hosts").unwrap().len(), 3);
    assert!(!hello.get_bool("isWritablePrimary").unwrap() && !hello.get_bool("secondary").unwrap());
    let status = server.run("admin", doc! {"replSetGetStatus": 1});
    let own = status.get_array("members").unwrap()[1].as_document().unwrap();
    assert_eq!((own.get_str("name").unwrap(), own.get_str("stateStr").unwrap()), ("db2:1", "RECOVERING"));
    let status = server.run("admin", doc! {"serverStatus": 1});
    let section = status.get_document("plimsoll").unwrap().get_document("replicaSet").unwrap();
    assert_eq!(section.get_str("state").unwrap(), "recovering");
}

/// The others may have it, or not: another primary is asked.
#[test]
fn who_waits_for_members_when_the_log_falls_silent_is_answered() {
    let program = Arc::new(Program::default());
    program.set_leads(true);
    let mut server = TestServer::of_members(facts(), program.clone());
    *program.falls_silent.lock() = Some(server.dispatcher.server().store().clone());
    let insert = doc! {"insert": "c", "documents": [{"_id": 1}], "writeConcern": {"w": 3}};
    let reply = server.send("test", insert, Attempt::First).unwrap();
    let error = reply.get_document("writeConcernError").unwrap_or(&reply);
    assert_eq!(error.get_i32("code").unwrap(), 11602, "{reply}");
}

#[test]
fn server_status_says_how_far_each_member_is() {
    let mut server = TestServer::of_members(facts(), Arc::new(Program::default()));
    let status = server.run("admin", doc! {"serverStatus": 1});
    let section = status.get_document("plimsoll").unwrap().get_document("replicaSet").unwrap();
    assert_eq!((section.get_str("state").unwrap(), section.get_i64("term").unwrap()), ("secondary", 7));
    assert_eq!(section.get_str("primary").unwrap(), "db1:1");
    assert_eq!((section.get_f64("lagSecondsMax").unwrap(), section.get_i64("silentMembers").unwrap()), (1.5, 1));
    let trimmed = doc! {"times": 2i64, "records": 9i64, "copies": 1i64};
    let mut log = doc! {"nextRecord": 17i64, "neededRecord": 11i64, "complaints": ["retention.ms is 1"]};
    log.extend(doc! {"firstRecord": 9i64, "trimmed": trimmed, "keptBecause": []});
    assert_eq!(section.get_document("log").unwrap(), &log);
    let members = section.get_document("members").unwrap();
    let state = |host: &str| members.get_document(host).unwrap().get_str("state").unwrap();
    assert_eq!(["db1:1", "db2:1", "db3:1", "db4:1"].map(state), ["primary", "secondary", "down", "recovering"]);
    let third = members.get_document("db3:1").unwrap();
    assert_eq!((third.get_i64("appliedPosition").unwrap(), third.get_bool("isFrozen").unwrap()), (100, true));
    assert_eq!(section.get_array("waitForCopy").unwrap(), &vec![Bson::from("db5:1")]);
}

#[test]
fn who_is_refused_by_a_former_primary_sees_that_it_is_news() {
    let program = Arc::new(Program::default());
    program.set_leads(true);
    let mut server = TestServer::of_members(facts(), program.clone());
    let hello = server.run("admin", doc! {"hello": 1});
    assert!(hello.get_bool("isWritablePrimary").unwrap());
    // The greater of the log's term and the one that is stored.
    assert_eq!(hello.get_object_id("electionId").unwrap().to_hex(), "7fffffff0000000000000007");
    program.set_leads(false);
    let refused = server.send("test", doc! {"insert": "c", "documents": [{"a": 1}]}, Attempt::First).unwrap();
    assert!(counter(&refused) > counter(&hello));
}

#[test]
fn a_write_waits_for_as_many_members_as_it_asks_for() {
    let program = Arc::new(Program::default());
    program.set_leads(true);
    let mut server = TestServer::of_members(facts(), program.clone());
    let insert = |id: i32, concern: Document| doc! {"insert": "c", "documents": [{"_id": id}], "writeConcern": concern};
    let reply = server.run("test", insert(1, doc! {"w": 3}));
    assert!(!reply.contains_key("writeConcernError"), "{reply}");
    assert_eq!(*program.asked.lock(), ["news", "news"]);
    let reply = server.run("test", insert(2, doc! {"w": 4}));
    assert_eq!(reply.get_document("writeConcernError").unwrap().get_i32("code").unwrap(), 100);
    assert_eq!(reply.get_i32("n").unwrap(), 1);
}

#[test]
fn who_leads_gives_up_the_lead_or_says_why_not() {
    let program = Arc::new(Program::default());
    program.set_leads(true);
    let mut server = TestServer::of_members(facts(), program.clone());
    assert_eq!(server.fail("admin", doc! {"replSetStepDown": 60}).0, 262);
    server.run("admin", doc! {"replSetStepDown": 60, "force": true});
    assert_eq!(*program.asked.lock(), ["step down 60s", "step down 60s"]);
    assert_eq!(server.fail("admin", doc! {"replSetFreeze": 5}).0, 95);
}

#[test]
fn a_configuration_leaves_out_who_is_gone_and_adds_nobody() {
    let program = Arc::new(Program::default());
    program.set_leads(true);
    let mut server = TestServer::of_members(facts(), program.clone());
    let told = server.run("admin", doc! {"replSetGetConfig": 1});
    let mut config = told.get_document("config").unwrap().clone();
    let members = config.get_array("members").unwrap().clone();
    assert_eq!(members.len(), 3);
    config.insert("version", config.get_i32("version").unwrap() + 1);
    let with = |members: &[Bson]| {
        let mut config = config.clone();
        config.insert("members", members.to_vec());
        doc! {"replSetReconfig": config}
    };
    // One that is there must be stopped first, and this one must stay.
    assert_eq!(server.fail("admin", with(&members[1..])).0, 93);
    assert_eq!(server.fail("admin", with(&members[..1])).0, 93);
    let mut more = members.clone();
    more.push(Bson::Document(doc! {"_id": 3, "host": "db4:1"}));
    assert_eq!(server.fail("admin", with(&more)).0, 93);
    server.run("admin", with(&members[..2]));
    assert_eq!(*program.asked.lock(), ["withdraw db3:1"]);
}
