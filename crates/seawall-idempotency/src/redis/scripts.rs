//! The scripts: each is one atomic operation.

use redis::Script;

pub(super) struct Scripts {
    pub(super) claim: Script,
    pub(super) renew: Script,
    pub(super) complete: Script,
    pub(super) release: Script,
    pub(super) mark_unknown: Script,
    pub(super) begin_resolving: Script,
    pub(super) purge: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            claim: Script::new(include_str!("scripts/claim.lua")),
            renew: Script::new(include_str!("scripts/renew.lua")),
            complete: Script::new(include_str!("scripts/complete.lua")),
            release: Script::new(include_str!("scripts/release.lua")),
            mark_unknown: Script::new(include_str!("scripts/mark_unknown.lua")),
            begin_resolving: Script::new(include_str!("scripts/begin_resolving.lua")),
            purge: Script::new(include_str!("scripts/purge.lua")),
        }
    }
}
