//! What a database says of itself to clients: build, configuration, addresses, its replica set. Called by `opening`.

use bson::raw::cstr;
use bson::rawdoc;
use commands::{Authorization, BuildFacts, Initiation, ReplicaSetFacts, ServerFacts};

use crate::configuration::{Configuration, ReplicaSet, ReplicaSetInitiation};
use crate::listener::Listeners;

/// What clients are told of the server.
pub(super) fn server_facts(
    configuration: &Configuration,
    listeners: &Listeners,
    arguments: Vec<String>,
) -> ServerFacts {
    let mut listed = bson::RawDocumentBuf::new();
    let addresses = configuration.listen.join(",");
    let (data, memory, cache) =
        (configuration.data.display().to_string(), configuration.memory_bytes, configuration.cache_bytes);
    listed.append(
        cstr!("net"),
        rawdoc! { "listen": addresses, "maxIncomingConnections": configuration.connections_max as i64 },
    );
    listed
        .append(cstr!("storage"), rawdoc! { "dbPath": data, "memoryBytes": memory as i64, "cacheBytes": cache as i64 });
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    ServerFacts {
        build: BuildFacts {
            version: env!("CARGO_PKG_VERSION"),
            git_version: option_env!("PLIMSOLL_GIT_VERSION").unwrap_or("unknown"),
        },
        arguments,
        configuration: listed,
        port: listeners.addresses().first().map_or(0, std::net::SocketAddr::port),
        memory_bytes: memory,
        cache_bytes: cache,
        compressors: configuration.compressors.iter().map(|compressor| compressor.name()).collect(),
        connections_max: configuration.connections_max as u64,
        has_test_commands: configuration.has_test_commands,
        has_scripting: configuration.has_scripting,
        authorization: match (configuration.requires_login, configuration.has_localhost_exception) {
            (false, _) => Authorization::Disabled,
            (true, true) => Authorization::Enabled,
            (true, false) => Authorization::EnabledForAll,
        },
        replica_set: configuration.replica_set.as_ref().map(|set| replica_set_facts(set, listeners, &host_name)),
        host_name,
    }
}

fn replica_set_facts(set: &ReplicaSet, listeners: &Listeners, host_name: &str) -> ReplicaSetFacts {
    ReplicaSetFacts {
        name: set.name.clone(),
        advertised: set.advertised.clone(),
        address: reachable_address(listeners, host_name),
        initiation: match set.initiation {
            ReplicaSetInitiation::Automatic => Initiation::Automatic,
            ReplicaSetInitiation::OnCommand => Initiation::OnCommand,
        },
    }
}

/// Where others find the first listener: what listens on all addresses is found by the name of the host.
fn reachable_address(listeners: &Listeners, host_name: &str) -> String {
    match listeners.addresses().first() {
        Some(address) if address.ip().is_unspecified() => format!("{host_name}:{}", address.port()),
        Some(address) => address.to_string(),
        None => host_name.to_owned(),
    }
}
