//! How a reply says that a write is there, but not as safe as was asked for.
//!
//! Used by every command that takes a write concern.

use crate::DocumentWriter;
use crate::request::error::Result;

/// `WriteConcernFailed`: its time was over.
const WRITE_CONCERN_FAILED: i32 = 64;

/// Writes `writeConcernError` when waiting for durability failed: the writes themselves are there.
pub(crate) fn write_concern_error(result: Result<()>, reply: &mut DocumentWriter<'_>) {
    if let Err(error) = result {
        reply.document("writeConcernError", |fields| {
            fields.int32("code", error.code);
            fields.string("codeName", &error.code_name);
            fields.string("errmsg", &error.message);
            if error.code == WRITE_CONCERN_FAILED {
                fields.document("errInfo", |info| info.boolean("wtimeout", true));
            }
        });
    }
}
