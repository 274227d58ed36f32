//! What ends a run early from outside: SIGINT, or the caller.

use std::pin::Pin;

use tokio::sync::watch;

/// Waited for across phases.
pub(super) struct Interrupt(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Interrupt {
    /// `stop` in place of SIGINT, when the caller has one.
    pub(super) fn new(stop: Option<watch::Receiver<bool>>) -> Self {
        Self(Box::pin(async move {
            let came = match stop {
                Some(mut stop) => stop.wait_for(|stop| *stop).await.is_ok(),
                None => tokio::signal::ctrl_c().await.is_ok(),
            };
            if !came {
                std::future::pending::<()>().await;
            }
        }))
    }

    /// Returns when it has come. A second one is not waited for.
    pub(super) async fn wait(&mut self) {
        (&mut self.0).await;
        self.0 = Box::pin(std::future::pending());
    }
}
