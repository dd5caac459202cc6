use std::io;
use std::net::SocketAddr;

use ::reqwest::dns::{Addrs, Name, Resolve, Resolving};
use dns_lookup::{AddrInfoHints, LookupErrorKind, SockType, getaddrinfo};

use crate::http::error::ResolveError;

/// The system's name lookup, whose errors say whether the name does not exist or the lookup failed
/// for now (C6). The standard library tells that in words only.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Resolver;

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::task::spawn_blocking(move || look_up(&host)).await;
            let addresses = match found {
                Ok(found) => found?,
                // The runtime shuts down.
                Err(_) => return Err(ResolveError::Temporary.into()),
            };
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

fn look_up(host: &str) -> Result<Vec<SocketAddr>, ResolveError> {
    let hints = AddrInfoHints {
        socktype: SockType::Stream.into(),
        ..AddrInfoHints::default()
    };
    let found = getaddrinfo(Some(host), None, Some(hints)).map_err(|error| match error.kind() {
        LookupErrorKind::NoName | LookupErrorKind::NoData => ResolveError::NotFound,
        _ => ResolveError::Temporary,
    })?;
    let addresses: io::Result<Vec<_>> =
        found.map(|entry| entry.map(|info| info.sockaddr)).collect();
    match addresses {
        Ok(addresses) if addresses.is_empty() => Err(ResolveError::NotFound),
        Ok(addresses) => Ok(addresses),
        Err(_) => Err(ResolveError::Temporary),
    }
}
