use ::http::HeaderName;
use seawall_engine::Policy;

/// A policy, and what a client makes of it once and not for every call.
pub(crate) struct Rules {
    pub(crate) policy: Policy,
    /// The header of the idempotency key.
    pub(crate) key_header: HeaderName,
    /// The headers that tell the server of the attempt: the time it has, its number (D7).
    pub(crate) announce: Option<(HeaderName, HeaderName)>,
}

impl Rules {
    pub(crate) fn of(policy: Policy) -> Self {
        // A policy has checked that its names are header names.
        let name = |name: &str| HeaderName::try_from(name).ok();
        let announce = policy.announce.as_ref();
        Self {
            key_header: name(&policy.idempotency_key.header)
                .unwrap_or(const { HeaderName::from_static("idempotency-key") }),
            announce: announce.and_then(|headers| {
                Some((
                    name(&headers.timeout_header)?,
                    name(&headers.attempt_header)?,
                ))
            }),
            policy,
        }
    }
}
