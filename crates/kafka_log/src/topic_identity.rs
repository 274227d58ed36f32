//! What a topic is known by: the id that the brokers gave it, other than its name never given twice.
//!
//! `unsafe`: the safe binding has no way to ask for it, so the C functions are called here. Each value that the library gives is freed by a guard, and nothing of
//! it is looked at after that.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::client::Client;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafka;

use shared_log::{LogIdentity, Result, SharedLogError};

use crate::connection::Context;

/// Room for what the library says of a wrong option.
const MESSAGE_BYTES: usize = 512;

/// Frees what it holds.
struct Freed<T> {
    pointer: *mut T,
    free: unsafe extern "C" fn(*mut T),
}

impl<T> Freed<T> {
    /// `None`: the library gave nothing.
    fn new(pointer: *mut T, free: unsafe extern "C" fn(*mut T)) -> Option<Freed<T>> {
        (!pointer.is_null()).then_some(Freed { pointer, free })
    }
}

impl<T> Drop for Freed<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the library, is not null, and is freed here alone.
        unsafe { (self.free)(self.pointer) }
    }
}

/// Asks the brokers for the id of a topic.
///
/// # Errors
/// `Absent`; `Unreachable`.
pub(crate) fn topic_identity(client: &Client<Context>, topic: &str, longest: Duration) -> Result<LogIdentity> {
    let failed = |cause: &str| client.context().unreachable(&cause);
    let name = CString::new(topic).map_err(|_| failed("the topic's name has a zero byte"))?;
    let answer = describe(client.native_ptr(), &name, longest).ok_or_else(|| failed("no answer"))?;
    // SAFETY: the event is alive until the end of this function; what is asked of it is its own.
    let code = unsafe { sys::rd_kafka_event_error(answer.pointer) };
    if code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Err(failed(&RDKafkaErrorCode::from(code).to_string()));
    }
    // SAFETY: an event without an error that answers this question has a result, with as many topics as it says, each with the
    // error and the id that belong to the event.
    let (code, id) = unsafe {
        let result = sys::rd_kafka_event_DescribeTopics_result(answer.pointer);
        let mut count = 0;
        let topics = if result.is_null() {
            std::ptr::null_mut()
        } else {
            sys::rd_kafka_DescribeTopics_result_topics(result, &mut count)
        };
        if topics.is_null() || count != 1 {
            return Err(failed("the answer is about another topic"));
        }
        let found = *topics;
        let error = sys::rd_kafka_TopicDescription_error(found);
        let code = if error.is_null() {
            sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
        } else {
            sys::rd_kafka_error_code(error)
        };
        let id = sys::rd_kafka_TopicDescription_topic_id(found);
        let id = (!id.is_null())
            .then(|| (sys::rd_kafka_Uuid_most_significant_bits(id), sys::rd_kafka_Uuid_least_significant_bits(id)));
        (RDKafkaErrorCode::from(code), id)
    };
    match (code, id) {
        (RDKafkaErrorCode::NoError, Some((0, 0)) | None) => {
            Err(failed("the brokers give topics no ids: Kafka from 2.8 on does"))
        }
        (RDKafkaErrorCode::NoError, Some((high, low))) => {
            let mut identity = [0; 16];
            identity[..8].copy_from_slice(&high.to_be_bytes());
            identity[8..].copy_from_slice(&low.to_be_bytes());
            Ok(LogIdentity(identity))
        }
        (RDKafkaErrorCode::UnknownTopicOrPartition, _) => Err(SharedLogError::Absent),
        (code, _) => Err(failed(&code.to_string())),
    }
}

/// The answer, whatever it is; `None`: none came.
fn describe(client: *mut RDKafka, topic: &CStr, longest: Duration) -> Option<Freed<sys::rd_kafka_event_t>> {
    let longest_millis = i32::try_from(longest.as_millis()).unwrap_or(i32::MAX);
    let mut names: [*const c_char; 1] = [topic.as_ptr()];
    // SAFETY: the client lives as long as whoever calls this holds it. The name lives until the collection has copied it. All that the
    // library makes is freed by its own function, once, and after the answer has come or was given up; the queue takes the answer with it.
    unsafe {
        let collection = sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
        let collection = Freed::new(collection, sys::rd_kafka_TopicCollection_destroy)?;
        let options =
            sys::rd_kafka_AdminOptions_new(client, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
        let options = Freed::new(options, sys::rd_kafka_AdminOptions_destroy)?;
        let mut message: [c_char; MESSAGE_BYTES] = [0; MESSAGE_BYTES];
        sys::rd_kafka_AdminOptions_set_request_timeout(
            options.pointer,
            longest_millis,
            message.as_mut_ptr(),
            MESSAGE_BYTES,
        );
        let queue = Freed::new(sys::rd_kafka_queue_new(client), sys::rd_kafka_queue_destroy)?;
        sys::rd_kafka_DescribeTopics(client, collection.pointer, options.pointer, queue.pointer);
        let answer = sys::rd_kafka_queue_poll(queue.pointer, longest_millis.saturating_add(1_000));
        Freed::new(answer, sys::rd_kafka_event_destroy)
    }
}
