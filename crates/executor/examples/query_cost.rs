//! What a query costs: point reads by `_id`, with and without an executor, and `$mod` decided on the keys of `_id`.
//!
//! `cargo run --release -p executor --example query_cost`; prints nanoseconds of CPU time of
//! its thread, as Linux accounts for it.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bson::{RawBsonRef, RawDocumentBuf, rawdoc};
use collection::{Collection, Namespace, Validation};
use executor::{IdLookup, QueryExecutor, QueryServices, Target, Uninterrupted};
use planner::{CanonicalQuery, IndexFilters, PlanCache};
use platform::{SeededRandom, SimulatedDisk, SystemClock, WorkingMemory};
use query_language::filter::{Filter, FilterOptions};
use transaction::{Acknowledgement, InsertOrder, Store, StoreOptions, WriteContext};

const DOCUMENTS: i32 = 200_000;
const READS: i32 = 200_000;

fn load(services: &QueryServices, collection: &Arc<Collection>) -> Result<(), Box<dyn Error>> {
    let mut context = WriteContext::new();
    for first in (0..DOCUMENTS).step_by(1000) {
        let documents: Vec<RawDocumentBuf> =
            (first..first + 1000).map(|id| rawdoc! { "_id": id, "x": "xxxxxxxxxxxxxxxxxxxx", "a": 0 }).collect();
        let documents: Vec<_> = documents.iter().map(|document| &**document).collect();
        let outcome = services.store.insert_documents(
            &mut context,
            collection,
            &documents,
            InsertOrder::Ordered,
            Validation::Enforce,
        );
        if let Some(commit) = &outcome.commit {
            services.store.acknowledge(commit, Acknowledgement::Visible)?;
        }
    }
    Ok(())
}

fn query(filter: &RawDocumentBuf) -> Result<Arc<CanonicalQuery>, Box<dyn Error>> {
    Ok(Arc::new(CanonicalQuery::new(Filter::parse(filter, &FilterOptions::default())?)))
}

#[allow(clippy::disallowed_methods, reason = "the kernel's figures are in no data directory")]
fn cpu_time() -> Duration {
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(figures.split(' ').next().and_then(|figure| figure.parse().ok()).unwrap_or(0))
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(SystemClock::new());
    let store =
        Store::open(Arc::new(SimulatedDisk::new(1)), clock, Arc::new(SeededRandom::new(1)), StoreOptions::default())?;
    let collection = store.collection_or_create(&Namespace::parse("test.c")?)?;
    let services = QueryServices {
        store,
        plan_cache: Arc::new(PlanCache::new(&platform::MemoryBudget::unlimited())),
        index_filters: Arc::new(IndexFilters::new(platform::MemoryBudget::unlimited())),
        memory: WorkingMemory::simulated(100 << 20)?,
        forbids_collection_scans: false,
        scan_sharing: Default::default(),
    };
    load(&services, &collection)?;
    let report = |what: &str, begun: Duration, count: i32| {
        println!("{what}: {} ns each", cpu_time().saturating_sub(begun).as_nanos() / count as u128);
    };
    let scattered = |read: i32| (read.wrapping_mul(7919)).rem_euclid(DOCUMENTS);

    let (mut lookup, mut bytes) = (IdLookup::default(), 0);
    let begun = cpu_time();
    for read in 0..READS {
        let view = services.store.read_view();
        if let Some((_, document)) = lookup.fetch(&view, &collection, RawBsonRef::Int32(scattered(read)))? {
            bytes += document.as_bytes().len();
        }
    }
    report("IdLookup with a view each", begun, READS);

    let begun = cpu_time();
    for read in 0..READS {
        let query = query(&rawdoc! { "_id": scattered(read) })?;
        let view = services.store.read_view();
        let mut executor = QueryExecutor::new(&services, view, Target::of(&collection), query, &Uninterrupted)?;
        if let Some(row) = executor.next(&Uninterrupted)? {
            bytes += row.document.as_bytes().len();
        }
    }
    report("filter parsed, planned, executed", begun, READS);

    for round in 0..3 {
        let query = query(&rawdoc! { "_id": { "$mod": [100, round] } })?;
        let view = services.store.read_view();
        let begun = cpu_time();
        let mut executor = QueryExecutor::new(&services, view, Target::of(&collection), query, &Uninterrupted)?;
        let mut found = 0;
        while executor.next(&Uninterrupted)?.is_some() {
            found += 1;
        }
        report(&format!("$mod, {found} found, a key examined"), begun, DOCUMENTS);
    }
    println!("{bytes} bytes read");
    services.store.shutdown()?;
    Ok(())
}
