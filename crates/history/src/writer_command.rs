//! Commands to the writer thread, sent by its owner and by the packer.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use model::Moment;

use crate::batch::Batch;
use crate::error::{Error, Result};

/// A command to the writer thread.
pub(crate) enum WriterCommand {
    Append(Arc<Batch>),
    /// Replies with the last sequence number when all earlier commands are durable.
    Flush(SyncSender<Result<i64>>),
    /// Replies when everything before the moment is pruned.
    Prune(Moment, SyncSender<Result<Moment>>),
    /// The packer has put an output into the packed slot.
    CheckPackedSlot,
    /// The packer failed.
    PackerFailed(Error),
    /// The packer has packed all rows and ended.
    PackerDone,
    /// The file is damaged; stop writing.
    Abandon,
    Close(SyncSender<Result<()>>),
}
