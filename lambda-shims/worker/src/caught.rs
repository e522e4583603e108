//! Conversion of panics in futures to errors.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use crate::error::{Error, Result};

/// Runs `future` to completion. A panic becomes an [`Error::Panic`] that contains `doing`, and the
/// future is then not polled again.
pub(crate) async fn caught<T>(doing: &'static str, future: impl Future<Output = Result<T>>) -> Result<T> {
    let mut future = pin!(future);
    let poll = |context: &mut std::task::Context<'_>| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(Error::Panic { doing, text: text(&*panic) })))
    };
    poll_fn(poll).await
}

/// Returns the message of a panic.
pub(crate) fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_panic_between_two_polls_is_an_error() {
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let result: Result<()> = tokio.block_on(caught("testing", async {
            tokio::task::yield_now().await;
            panic!("planted")
        }));
        assert!(matches!(result, Err(Error::Panic { doing: "testing", text }) if text == "planted"));
        assert_eq!(tokio.block_on(caught("testing", async { Ok(3) })).unwrap(), 3);
    }
}
