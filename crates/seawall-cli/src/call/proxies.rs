use std::env;

use crate::complaint::Complaint;

/// The variables that name a proxy.
const VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// Refuses a proxy that nobody can use: going around it in silence is not what its owner wants.
pub(super) fn check() -> Result<(), Complaint> {
    for variable in VARIABLES {
        for name in [variable.to_lowercase(), variable.to_owned()] {
            let Some(value) = env::var_os(&name).filter(|value| !value.is_empty()) else {
                continue;
            };
            if !value.to_str().is_some_and(is_proxy) {
                let text = value.to_string_lossy();
                // What stands before the host may be a password.
                let shown = text.rsplit('@').next().unwrap_or_default();
                return Err(Complaint::usage(format!(
                    "{name}: `{shown}` is not a proxy; allowed is a URL such as http://proxy.example:3128"
                )));
            }
        }
    }
    Ok(())
}

fn is_proxy(value: &str) -> bool {
    let usable = |scheme: &str| {
        matches!(
            scheme,
            "http" | "https" | "socks4" | "socks4a" | "socks5" | "socks5h"
        )
    };
    let whole = match value.split_once("://") {
        Some((scheme, _)) if !usable(&scheme.to_ascii_lowercase()) => return false,
        Some(_) => value.to_owned(),
        None => format!("http://{value}"),
    };
    reqwest::Url::parse(&whole).is_ok_and(|url| url.has_host())
}

#[cfg(test)]
mod tests {
    use super::is_proxy;

    #[test]
    fn c2_a_proxy_is_a_url_or_a_host() {
        for good in [
            "http://proxy:3128",
            "proxy:3128",
            "proxy",
            "127.0.0.1:8080",
            "http://user:pass@[::1]:8080/",
            "SOCKS5://proxy",
            "user:pass@proxy:1",
        ] {
            assert!(is_proxy(good), "{good}");
        }
        for bad in [
            "::bad::",
            "http://",
            "ftp://proxy",
            "http://proxy:99999",
            "a b",
        ] {
            assert!(!is_proxy(bad), "{bad}");
        }
    }
}
