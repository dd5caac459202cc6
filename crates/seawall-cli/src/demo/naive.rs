use std::time::Duration;

/// What people write first. It is found everywhere.
#[derive(Clone, Debug)]
pub(super) struct LoopAndSleep {
    client: reqwest::Client,
    attempt_timeout: Duration,
}

/// What came of a call, whoever made it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Called {
    pub(super) succeeded: bool,
    /// How often the request was sent.
    pub(super) attempts: u32,
}

impl LoopAndSleep {
    pub(super) const NAME: &str = "loop and sleep";
    pub(super) const ATTEMPTS: u32 = 10;
    pub(super) const SLEEP: Duration = Duration::from_millis(100);

    /// Must be made after a client of Seawall's, which chooses the provider of TLS; nothing here
    /// uses it.
    pub(super) fn new(attempt_timeout: Duration) -> reqwest::Result<Self> {
        Ok(Self {
            client: reqwest::Client::builder().no_proxy().build()?,
            attempt_timeout,
        })
    }

    /// Sends what `request` makes, until it succeeds or patience ends.
    pub(super) async fn call(
        &self,
        request: impl Fn(&reqwest::Client) -> reqwest::RequestBuilder,
    ) -> Called {
        for attempts in 1..=Self::ATTEMPTS {
            let attempt = request(&self.client).timeout(self.attempt_timeout);
            match attempt.send().await {
                Ok(response) if response.status().is_success() => {
                    return Called {
                        succeeded: true,
                        attempts,
                    };
                }
                _ => tokio::time::sleep(Self::SLEEP).await,
            }
        }
        Called {
            succeeded: false,
            attempts: Self::ATTEMPTS,
        }
    }
}
