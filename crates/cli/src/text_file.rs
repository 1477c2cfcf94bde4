//! Files that users write by hand.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::bail;

/// No file that is written by hand is longer.
const LONGEST: u64 = 16 << 20;

/// What is in it.
pub(super) fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        bail!("it is longer than {} MiB", LONGEST >> 20);
    }
    Ok(text)
}
