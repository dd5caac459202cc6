use seawall_engine::Policy;

use super::error::{ConfigError, Problem};
use super::file::{Format, PolicyFile};
use super::nearest::nearest_name;

/// The policy files that come with the library, by name.
const PRESETS: [(&str, &str); 5] = [
    ("aws", include_str!("../../presets/aws.toml")),
    ("cenkalti", include_str!("../../presets/cenkalti.toml")),
    (
        "go-retryablehttp",
        include_str!("../../presets/go-retryablehttp.toml"),
    ),
    (
        "grpc-hedging",
        include_str!("../../presets/grpc-hedging.toml"),
    ),
    ("grpc-retry", include_str!("../../presets/grpc-retry.toml")),
];

/// A policy with the numbers of a well-known library or protocol, by the name of its file in
/// `presets/`, which says where our rules differ on purpose.
///
/// `preset:NAME` means the same wherever the path of a policy file is taken.
///
/// # Errors
///
/// When there is no preset of this name; the error tells the nearest.
///
/// ```
/// let policy = seawall::config::preset("aws")?;
/// assert_eq!(policy.backoff.cap, std::time::Duration::from_secs(20));
/// # Ok::<(), seawall::config::ConfigError>(())
/// ```
pub fn preset(name: &str) -> Result<Policy, ConfigError> {
    read(name).map(|file| file.policy().clone())
}

/// The names that [`preset`] knows.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

pub(super) fn read(name: &str) -> Result<PolicyFile, ConfigError> {
    let origin = format!("preset:{name}");
    match PRESETS.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => PolicyFile::parse_as(&origin, text, Format::Toml),
        None => {
            let names: Vec<&str> = preset_names().collect();
            let nearest = nearest_name(name, &names);
            Err(ConfigError::new(origin, Problem::UnknownPreset { nearest }))
        }
    }
}
