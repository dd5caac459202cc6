use seawall_engine::Policy;

use super::error::{ConfigError, Problem};
use super::file::{Format, PolicyFile};
use super::nearest::nearest_name;

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../presets/", $name, ".toml")))),*]
    };
}

/// The policy files that come with the library, by name.
const PRESETS: [(&str, &str); 14] = presets![
    "aws",
    "cenkalti",
    "envoy",
    "finagle",
    "go-retryablehttp",
    "go-zero",
    "grpc-hedging",
    "grpc-retry",
    "hystrix",
    "polly",
    "resilience4j",
    "sentinel-count",
    "sentinel-errors",
    "sentinel-slow",
];

/// A policy with the numbers of a well-known library or protocol, by the name of its file in
/// `presets/`, which says where our rules differ on purpose and which rule that is.
///
/// | name | what is known from there |
/// |---|---|
/// | `aws` | the standard retry mode of the AWS SDKs |
/// | `cenkalti` | Go's cenkalti/backoff |
/// | `envoy` | `retry_on: 5xx`, the retry budget, outlier detection |
/// | `finagle` | retry budget, backup requests, failure accrual |
/// | `go-retryablehttp` | HashiCorp's client |
/// | `go-zero` | the adaptive breaker |
/// | `grpc-hedging`, `grpc-retry` | proposal A6 |
/// | `hystrix` | hystrix-go's commands |
/// | `polly` | the standard resilience handler of .NET |
/// | `resilience4j` | circuit breaker and retry |
/// | `sentinel-count`, `sentinel-errors`, `sentinel-slow` | sentinel-golang's three rules |
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
