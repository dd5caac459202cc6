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
    let found =
        getaddrinfo(Some(host), None, Some(hints)).map_err(|error| meaning(error.kind()))?;
    let addresses: io::Result<Vec<_>> =
        found.map(|entry| entry.map(|info| info.sockaddr)).collect();
    match addresses {
        Ok(addresses) if addresses.is_empty() => Err(ResolveError::NotFound),
        Ok(addresses) => Ok(addresses),
        Err(_) => Err(ResolveError::Temporary),
    }
}

fn meaning(failure: LookupErrorKind) -> ResolveError {
    match failure {
        LookupErrorKind::NoName | LookupErrorKind::NoData => ResolveError::NotFound,
        _ => ResolveError::Temporary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c6_a_lookup_tells_for_good_from_for_now() {
        for (failure, meant) in [
            (LookupErrorKind::NoName, ResolveError::NotFound),
            (LookupErrorKind::NoData, ResolveError::NotFound),
            (LookupErrorKind::Again, ResolveError::Temporary),
            (LookupErrorKind::Fail, ResolveError::Temporary),
            (LookupErrorKind::Memory, ResolveError::Temporary),
            (LookupErrorKind::System, ResolveError::Temporary),
            (LookupErrorKind::Unknown, ResolveError::Temporary),
        ] {
            assert_eq!(meaning(failure), meant, "{failure:?}");
        }
    }

    #[test]
    fn c6_an_address_is_looked_up_without_a_network() {
        let found = look_up("127.0.0.1").unwrap();
        assert!(!found.is_empty());
        assert!(found.iter().all(|address| address.ip().is_loopback()));
    }
}
