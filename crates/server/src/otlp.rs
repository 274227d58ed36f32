//! Sends traces of operations to an OpenTelemetry collector (`--otlp URL`), by OTLP over HTTP.
//!
//! Called by `database`. Commands put spans into a queue that has an end, and never wait for it; one thread takes them out, writes them (`spans`) and
//! sends them. Why JSON, and why no crate of OpenTelemetry's: `docs/decisions/0031-traces.md`.
//!
//! ```text
//! a command's end ── take ──▶ queue ──▶ batch: 512 spans, or a second's ──▶ POST ── 2xx ─▶ sent
//!                     └ full: dropped                                        └ 429, 502, 503, 504, no answer: again, then failed
//! ```

mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::body::Body;
use backup::{OutgoingClient, Unencrypted, outgoing_client};
use commands::{OperationSpan, TraceFigures, TraceSettings, TraceSink};
use http::{Request, StatusCode, Uri, header};
use parking_lot::Mutex;
use platform::{Clock, SystemClock, SystemRandom};

use crate::configuration::TraceConfiguration;

/// Spans that wait to be sent, some hundred bytes each.
const QUEUE_SPANS: usize = 8192;
const BATCH_SPANS: usize = 512;
/// For so long a span waits for others.
const BATCH_WAIT: Duration = Duration::from_secs(1);
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// A batch is sent so many times, with a pause between that doubles.
const ATTEMPTS_MAX: u32 = 4;
const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// Between two looks at whether to end.
const LOOK: Duration = Duration::from_millis(50);

/// The thread that sends, and the queue before it.
pub(crate) struct TraceExport {
    share: f64,
    queue: Mutex<Option<SyncSender<OperationSpan>>>,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// What commands have of it.
struct Sink {
    queue: SyncSender<OperationSpan>,
    counts: Arc<Counts>,
}

impl TraceSink for Sink {
    fn take(&self, span: OperationSpan) {
        if self.queue.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn figures(&self) -> TraceFigures {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TraceFigures { sent: of(&self.counts.sent), dropped: of(&self.counts.dropped), failed: of(&self.counts.failed) }
    }
}

impl TraceExport {
    /// Begins. A collector that is not there is no reason not to serve.
    ///
    /// # Errors
    /// The machine refuses a thread.
    pub(crate) fn begin(configuration: &TraceConfiguration) -> Result<Arc<TraceExport>, String> {
        let (queue, taken) = sync_channel(QUEUE_SPANS);
        let (counts, stop) = (Arc::<Counts>::default(), Arc::<AtomicBool>::default());
        let cannot = |error: &dyn std::fmt::Display| format!("--otlp: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let sender = Sender {
            runtime: runtime.map_err(|error| cannot(&error))?,
            client: outgoing_client(Unencrypted::Allowed).map_err(|error| cannot(&error))?,
            collector: configuration.collector.clone(),
            resource: spans::Resource::of_process(),
            counts: Arc::clone(&counts),
            stop: Arc::clone(&stop),
            trouble: None,
        };
        let thread = platform::spawn_named("otlp", move || sender.run(&taken)).map_err(|error| cannot(&error))?;
        tracing::info!(target: "control", collector = %configuration.collector, share = configuration.share, "operations are traced");
        Ok(Arc::new(TraceExport {
            share: configuration.share,
            queue: Mutex::new(Some(queue)),
            counts,
            stop,
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// For commands.
    pub(crate) fn settings(self: &Arc<Self>) -> TraceSettings {
        let queue = self.queue.lock().take();
        // Asked once; a second one would have a queue that nobody empties.
        let queue = queue.unwrap_or_else(|| sync_channel(0).0);
        TraceSettings { share: self.share, sink: Arc::new(Sink { queue, counts: Arc::clone(&self.counts) }) }
    }

    /// Sends what waits, if the collector takes it at once, and ends.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().take() {
            // It panicked: that is in the log.
            let _ = thread.join();
        }
    }
}

/// Works on the thread.
struct Sender {
    runtime: tokio::runtime::Runtime,
    client: OutgoingClient<Body>,
    collector: Uri,
    resource: spans::Resource,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    /// What was told last.
    trouble: Option<String>,
}

impl Sender {
    fn run(mut self, taken: &Receiver<OperationSpan>) {
        let (clock, mut batch) = (SystemClock::new(), Vec::new());
        loop {
            // Looked at before the last batch, which then has everything.
            let is_last = self.stop.load(Ordering::Acquire);
            let is_over = self.fill(&mut batch, taken, &clock, is_last);
            if !batch.is_empty() {
                let is_taken = self.deliver(&batch, &clock);
                batch.clear();
                // Nobody waits for a collector that is not there.
                if !is_taken && self.stop.load(Ordering::Acquire) {
                    return;
                }
            } else if is_last || is_over {
                return;
            }
        }
    }

    /// Waits for spans. Whether there will be none any more.
    fn fill(
        &self,
        batch: &mut Vec<OperationSpan>,
        taken: &Receiver<OperationSpan>,
        clock: &SystemClock,
        is_last: bool,
    ) -> bool {
        let until = clock.monotonic() + BATCH_WAIT;
        while batch.len() < BATCH_SPANS {
            let left = until.saturating_sub(clock.monotonic());
            let wait = if is_last { Duration::ZERO } else { left.min(LOOK) };
            match taken.recv_timeout(wait) {
                Ok(span) => batch.push(span),
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => {
                    if left.is_zero() || self.stop.load(Ordering::Acquire) {
                        return false;
                    }
                }
            }
        }
        false
    }

    /// Whether the collector has taken them in the end.
    fn deliver(&mut self, batch: &[OperationSpan], clock: &SystemClock) -> bool {
        let body = spans::written(batch, &self.resource, &SystemRandom).to_string();
        let mut pause = PAUSE_FIRST;
        for attempt in 1..=ATTEMPTS_MAX {
            let may_repeat = match self.post(body.clone()) {
                Ok(status) if status.is_success() => {
                    self.counts.sent.fetch_add(batch.len() as u64, Ordering::Relaxed);
                    if self.trouble.take().is_some() {
                        tracing::info!(target: "control", "the collector takes traces again");
                    }
                    return true;
                }
                Ok(status) => {
                    self.tell(format!("it answers {status}"));
                    matches!(status.as_u16(), 429 | 502 | 503 | 504)
                }
                Err(reason) => {
                    self.tell(reason);
                    true
                }
            };
            if !may_repeat || attempt == ATTEMPTS_MAX || self.stop.load(Ordering::Acquire) {
                break;
            }
            clock.sleep(pause);
            pause *= 2;
        }
        self.counts.failed.fetch_add(batch.len() as u64, Ordering::Relaxed);
        false
    }

    fn post(&self, body: String) -> Result<StatusCode, String> {
        let request = Request::post(self.collector.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("plimsoll/", env!("CARGO_PKG_VERSION")))
            .body(Body::from(body))
            .map_err(|error| error.to_string())?;
        self.runtime.block_on(async {
            let answer = tokio::time::timeout(ANSWER_WAIT, self.client.request(request)).await;
            let answer = answer.map_err(|_| format!("no answer for {} s", ANSWER_WAIT.as_secs()))?;
            answer.map(|answer| answer.status()).map_err(|error| error.to_string())
        })
    }

    /// Told when it begins and when it becomes another.
    fn tell(&mut self, reason: String) {
        if self.trouble.as_ref() != Some(&reason) {
            tracing::warn!(target: "control", collector = %self.collector, reason, "the collector does not take traces");
            self.trouble = Some(reason);
        }
    }
}
