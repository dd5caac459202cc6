use std::error::Error as StdError;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use ::reqwest::Request;

use crate::drive::Failed;
use crate::panicked;
use crate::retry::Attempt;

type Boxed = Box<dyn StdError + Send + Sync>;

/// What runs before each attempt, on its own copy of the request (B1): it may refresh a token or a
/// signature.
pub(super) type Hook = Arc<dyn Fn(Request, Attempt) -> Hooked + Send + Sync>;

type Hooked = Pin<Box<dyn Future<Output = Result<Request, HookError>> + Send>>;

/// The hook's own failure: no failure of the attempt (E6).
pub(super) struct HookError(Boxed);

impl HookError {
    pub(super) fn into_failed(self) -> Failed {
        Failed::of_hook(self.0)
    }
}

/// Any async function, as a hook.
pub(super) fn boxed<F, Fut, E>(hook: F) -> Hook
where
    F: Fn(Request, Attempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Request, E>> + Send + 'static,
    E: Into<Boxed>,
{
    let hook = Arc::new(hook);
    Arc::new(move |request, attempt| {
        let hook = Arc::clone(&hook);
        Box::pin(async move {
            let hooked = panicked::caught(|| hook(request, attempt))
                .map_err(|panicked| HookError(panicked.into()))?;
            let mut hooked = pin!(hooked);
            poll_fn(
                |context| match panicked::caught(|| hooked.as_mut().poll(context)) {
                    Ok(polled) => polled.map_err(|error| HookError(error.into())),
                    Err(panicked) => Poll::Ready(Err(HookError(panicked.into()))),
                },
            )
            .await
        })
    })
}
