//! How long anything of the store may take.

use std::time::Duration;

use crate::StoreError;

/// Waits for an operation of the store for so long. An operation that was given up may still have
/// been carried out: nothing is known about its effect.
pub(crate) async fn within<T, E: From<StoreError>>(
    patience: Duration,
    operation: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match tokio::time::timeout(patience, operation).await {
        Ok(result) => result,
        Err(_) => Err(E::from(StoreError::unavailable(format!(
            "no answer within {patience:?}"
        )))),
    }
}
