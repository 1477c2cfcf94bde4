//! What a user should know of recordings, on its way to whoever shows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

/// So many wait to be shown. Recorders do not wait for a terminal: more than that are counted and not kept.
const WAITING: usize = 256;

/// Of which cluster, and what.
pub type Notice = (Arc<str>, String);

/// Where recorders say what a user should know.
#[derive(Clone)]
pub struct Notices {
    sender: mpsc::Sender<Notice>,
    left_out: Arc<AtomicU64>,
}

/// Whoever shows it.
pub struct NoticeReader {
    receiver: mpsc::Receiver<Notice>,
    left_out: Arc<AtomicU64>,
}

/// Both ends.
pub fn notices() -> (Notices, NoticeReader) {
    let (sender, receiver) = mpsc::channel(WAITING);
    let left_out = Arc::new(AtomicU64::new(0));
    (Notices { sender, left_out: left_out.clone() }, NoticeReader { receiver, left_out })
}

// === impl Notices ===

impl Notices {
    /// Says something. It is lost on nobody but one who does not listen.
    pub fn say(&self, cluster: Arc<str>, words: String) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.sender.try_send((cluster, words)) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// === impl NoticeReader ===

impl NoticeReader {
    /// The next, when there is one; `None` when nobody is left to say anything.
    pub async fn next(&mut self) -> Option<Notice> {
        match self.left_out() {
            Some(notice) => Some(notice),
            None => self.receiver.recv().await,
        }
    }

    /// The next that is there already.
    pub fn next_now(&mut self) -> Option<Notice> {
        self.receiver.try_recv().ok().or_else(|| self.left_out())
    }

    /// That some were left out, once those before them were shown.
    fn left_out(&self) -> Option<Notice> {
        if !self.receiver.is_empty() {
            return None;
        }
        let count = self.left_out.swap(0, Ordering::Relaxed);
        (count > 0)
            .then(|| ("recorder".into(), format!("{count} more warnings came faster than they were shown")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_faster_than_it_is_shown_is_counted() {
        let (notices, mut reader) = notices();
        for number in 0..WAITING + 3 {
            notices.say("prod".into(), number.to_string());
        }
        for number in 0..WAITING {
            assert_eq!(reader.next_now(), Some(("prod".into(), number.to_string())));
        }
        let (_, words) = reader.next_now().expect("some were left out");
        assert_eq!(words, "3 more warnings came faster than they were shown");
        assert_eq!(reader.next_now(), None);
        notices.say("prod".into(), "again".to_owned());
        assert_eq!(reader.next_now(), Some(("prod".into(), "again".to_owned())));
    }
}
