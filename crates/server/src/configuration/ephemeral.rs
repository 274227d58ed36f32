//! A server whose data is in memory (`--ephemeral`): what does not go with that, and how the memory is shared.
//!
//! Called by `Configuration::resolve`.

use super::{ConfigurationError, Settings, Size};

const CACHE_PERCENT: f64 = 25.0;
/// Buffers, and what is fixed.
const OWN_BYTES: u64 = 64 << 20;
const FILE_BYTES_MIN: u64 = 16 << 20;

/// Whether the server is one.
///
/// # Errors
/// Something else is asked for that needs a disk.
pub(super) fn check(settings: &Settings) -> Result<bool, ConfigurationError> {
    if !settings.ephemeral.unwrap_or(false) {
        return Ok(false);
    }
    let key = [&settings.encryption_key_env, &settings.encryption_key_command].iter().any(|key| key.is_some());
    let needs_disk = [
        ("data", settings.data.is_some()),
        ("encryption-key-file", key || settings.encryption_key_file.is_some()),
        ("flight-recorder-size", settings.flight_recorder_size.is_some()),
    ];
    match needs_disk.iter().find(|(_, is_given)| *is_given) {
        Some((setting, _)) => Err(ConfigurationError::bad_value(
            setting,
            "means nothing with --ephemeral, where nothing is on disk: leave out one of them",
        )),
        None => Ok(true),
    }
}

/// The cache that is asked for. What is in memory twice has less of it.
pub(super) fn cache(settings: &Settings, is_ephemeral: bool) -> Option<Size> {
    settings.cache.or(is_ephemeral.then_some(Size::Percent(CACHE_PERCENT)))
}

/// Half of what the cache and the server's own buffers leave is for files, the other half for commands.
///
/// # Errors
/// That is next to nothing.
pub(super) fn file_bytes(memory_bytes: u64, cache_bytes: u64) -> Result<u64, ConfigurationError> {
    let bytes = memory_bytes.saturating_sub(cache_bytes).saturating_sub(OWN_BYTES) / 2;
    if bytes < FILE_BYTES_MIN {
        let reason =
            format!("{memory_bytes} bytes is too little for --ephemeral: 128MiB is enough for a few documents");
        return Err(ConfigurationError::bad_value("memory", reason));
    }
    Ok(bytes)
}
