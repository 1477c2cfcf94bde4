//! Messages of recorders for the user, sent through a bounded channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

/// The capacity of the channel. Recorders do not wait for a terminal: further messages are only counted.
const CAPACITY: usize = 256;

/// The name of the cluster, and the message.
pub type Notice = (Arc<str>, String);

/// The sender of notices, used by recorders.
#[derive(Clone)]
pub struct NoticeSender {
    sender: mpsc::Sender<Notice>,
    dropped: Arc<AtomicU64>,
}

/// The receiver of notices.
pub struct NoticeReader {
    receiver: mpsc::Receiver<Notice>,
    dropped: Arc<AtomicU64>,
}

/// Creates the channel.
pub fn notice_channel() -> (NoticeSender, NoticeReader) {
    let (sender, receiver) = mpsc::channel(CAPACITY);
    let dropped = Arc::new(AtomicU64::new(0));
    (NoticeSender { sender, dropped: dropped.clone() }, NoticeReader { receiver, dropped })
}

// === impl NoticeSender ===

impl NoticeSender {
    /// Sends a notice without waiting. Without a reader it is dropped.
    pub fn send(&self, cluster: Arc<str>, message: String) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.sender.try_send((cluster, message)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// === impl NoticeReader ===

impl NoticeReader {
    /// Waits for the next notice; `None` when all senders are dropped.
    pub async fn next(&mut self) -> Option<Notice> {
        match self.dropped_notice() {
            Some(notice) => Some(notice),
            None => self.receiver.recv().await,
        }
    }

    /// The next notice, without waiting.
    pub fn try_next(&mut self) -> Option<Notice> {
        self.receiver.try_recv().ok().or_else(|| self.dropped_notice())
    }

    /// A notice about dropped notices, after the queued ones have been read.
    fn dropped_notice(&self) -> Option<Notice> {
        if !self.receiver.is_empty() {
            return None;
        }
        let count = self.dropped.swap(0, Ordering::Relaxed);
        (count > 0).then(|| ("recorder".into(), format!("{count} more warnings were dropped")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_beyond_the_capacity_are_counted() {
        let (notices, mut reader) = notice_channel();
        for number in 0..CAPACITY + 3 {
            notices.send("prod".into(), number.to_string());
        }
        for number in 0..CAPACITY {
            assert_eq!(reader.try_next(), Some(("prod".into(), number.to_string())));
        }
        let (_, message) = reader.try_next().expect("some were left out");
        assert_eq!(message, "3 more warnings were dropped");
        assert_eq!(reader.try_next(), None);
        notices.send("prod".into(), "again".to_owned());
        assert_eq!(reader.try_next(), Some(("prod".into(), "again".to_owned())));
    }
}
