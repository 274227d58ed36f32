//! Whole backups, archives and restores of a store that goes on, on simulated disks.
//!
//! What was restored is opened, validated, and compared document by document with the store as it was at that moment.

mod archive;
mod damage;
mod early;
mod fixture;
mod kills;
mod making;
