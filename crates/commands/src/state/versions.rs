//! The version of MongoDB that we say we are, in one place.
//!
//! Used by `hello`, `buildInfo`, `serverStatus` and `getParameter`. Clients choose what they send by these: wire version
//! 25 has them send `bulkWrite`, and `sort` in statements of `update`.

/// As `buildInfo` gives it.
pub const VERSION: &str = "8.0.16";
/// The same in parts.
pub(crate) const VERSION_ARRAY: [i32; 4] = [8, 0, 16, 0];
/// The feature compatibility version.
pub(crate) const FEATURE_COMPATIBILITY_VERSION: &str = "8.0";
/// The version of how users are stored; there are none.
pub(crate) const AUTHENTICATION_SCHEMA_VERSION: i32 = 5;
/// The newest wire version that we speak: that of 8.0.
pub(crate) const WIRE_VERSION_MAX: i32 = 25;
/// The oldest.
pub(crate) const WIRE_VERSION_MIN: i32 = 0;
/// Largest document.
pub(crate) const DOCUMENT_BYTES_MAX: i32 = 16 << 20;
/// Largest message.
pub(crate) const MESSAGE_BYTES_MAX: i32 = 48_000_000;
