//! The limit on open files (`ulimit -n`): raised as far as it goes, and refused when that is too little to run with.
//!
//! Called by `main` at the start.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::STARTUP_WARNINGS;

/// Descriptors kept for the data and the reactor, beside those of connections.
const DESCRIPTORS_RESERVED: u64 = 256;
/// Connections without which there is no use in starting.
const CONNECTIONS_MIN: u64 = 64;

/// Raises the limit, and gives the connections that it then allows of those that are wanted.
///
/// # Errors
/// It is too low, with the number that is needed.
pub(crate) fn connections_possible(wanted: usize) -> Result<usize, String> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    };
    let Some(descriptors) = current else { return Ok(wanted) };
    let possible = allowed(descriptors, wanted)?;
    if possible < wanted {
        let needed = DESCRIPTORS_RESERVED + wanted as u64;
        tracing::warn!(target: STARTUP_WARNINGS, descriptors, needed, connections_max = possible, "the limit on open files allows fewer connections than configured");
    }
    Ok(possible)
}

/// How many of the connections that are wanted so many descriptors allow.
fn allowed(descriptors: u64, wanted: usize) -> Result<usize, String> {
    let needed = DESCRIPTORS_RESERVED + CONNECTIONS_MIN.min(wanted as u64);
    if descriptors < needed {
        return Err(format!(
            "the limit on open files is {descriptors} and cannot be raised: at least {needed} are needed ({DESCRIPTORS_RESERVED} for the data, the others for \
             connections). Raise the hard limit: `ulimit -Hn {needed}`, or LimitNOFILE={needed} for systemd"
        ));
    }
    Ok(wanted.min(usize::try_from(descriptors - DESCRIPTORS_RESERVED).unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_are_refused_with_the_number_that_is_needed() {
        assert_eq!(allowed(1_048_576, 65_536), Ok(65_536));
        assert_eq!(allowed(1_024, 65_536), Ok(768));
        assert_eq!(allowed(320, 65_536), Ok(64));
        let refused = allowed(319, 65_536).unwrap_err();
        assert!(refused.contains("is 319") && refused.contains("at least 320"), "{refused}");
        // Who wants fewer connections needs fewer descriptors.
        assert_eq!(allowed(266, 10), Ok(10));
        assert!(allowed(265, 10).unwrap_err().contains("at least 266"));
    }
}
