//! Conversion of panics into errors, so that a supervisor survives a panic of its task.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// A panic, with its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recorder panicked: {0}")]
pub struct Panic(String);

/// Runs a future until it completes or panics. Its data may be inconsistent after a panic: the caller restarts from a
/// known state.
pub async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, Panic> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(payload) => Poll::Ready(Err(Panic::new(&*payload))),
    })
    .await
}

// === impl Panic ===

impl Panic {
    fn new(payload: &(dyn Any + Send)) -> Panic {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Panic(text.unwrap_or_else(|| "no message".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_error_with_its_message() {
        assert_eq!(catch_panic(async { 7 }).await, Ok(7));
        let number = 7;
        let broken = catch_panic(async {
            tokio::task::yield_now().await;
            assert_eq!(number, 8, "seven is not eight");
        });
        let message = broken.await.unwrap_err().to_string();
        assert!(
            message.starts_with("the recorder panicked: ") && message.contains("seven is not eight"),
            "{message}"
        );
        let silent = catch_panic(async { std::panic::panic_any(7) });
        assert_eq!(silent.await.unwrap_err().to_string(), "the recorder panicked: no message");
    }
}
