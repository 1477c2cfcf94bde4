//! Panics as errors: what supervises a task goes on when the task breaks.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// A panic, in the words it was raised with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recorder broke: {0}")]
pub struct Panic(String);

/// Runs work to its end, or to its panic. What it works on may be half changed after a panic: the caller begins again from
/// what it knows for sure.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panic> {
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
        Panic(text.unwrap_or_else(|| "without a word".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_with_its_words_and_all_else_goes_on() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let number = 7;
        let broken = caught(async {
            tokio::task::yield_now().await;
            assert_eq!(number, 8, "seven is not eight");
        });
        let words = broken.await.unwrap_err().to_string();
        assert!(words.starts_with("the recorder broke: ") && words.contains("seven is not eight"), "{words}");
        let silent = caught(async { std::panic::panic_any(7) });
        assert_eq!(silent.await.unwrap_err().to_string(), "the recorder broke: without a word");
    }
}
