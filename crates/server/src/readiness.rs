//! What the service manager hears that started the server (systemd's notifications): it is ready, it lives, it stops.
//!
//! Called by `serve`. Where no manager wants to hear anything nothing is done. Protocol: `sd_notify(3)`.

use sd_notify::NotifyState;

/// Clients are served from now on.
pub(crate) fn is_ready() {
    tell(&[NotifyState::Ready]);
}

/// The server ends in order.
pub(crate) fn is_stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Says again and again that the server lives, if the manager has a watchdog: only while its threads take work.
pub(crate) async fn tell_that_it_lives() {
    let Some(patience) = sd_notify::watchdog_enabled() else { return };
    let mut interval = tokio::time::interval(patience / 2);
    loop {
        interval.tick().await;
        if tokio::task::spawn_blocking(|| {}).await.is_ok() {
            tell(&[NotifyState::Watchdog]);
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(target: "control", %error, "the service manager could not be told");
    }
}
