//! What the writer's thread is asked to do, by its owner and by the packer.

use std::sync::mpsc::SyncSender;

use model::Moment;

use crate::batch::Batch;
use crate::error::{Error, Result};

/// A message to the writer's thread.
pub(crate) enum Command {
    Append(Batch),
    /// Answered when all that came before is durable, with the number of the last change.
    Flush(SyncSender<Result<i64>>),
    /// Answered when everything before the moment is forgotten.
    Forget(Moment, SyncSender<Result<Moment>>),
    /// The packer has put something in the tray.
    Look,
    /// The packer cannot go on.
    PackerFailed(Error),
    /// The packer has packed all there was and ended.
    PackerDone,
    /// The file is damaged.
    Abandon,
    Close(SyncSender<Result<()>>),
}
