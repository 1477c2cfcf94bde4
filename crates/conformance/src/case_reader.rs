//! A reader of files with a case on every line.

use std::marker::PhantomData;

use crate::{Error, JsonLines, Result};

/// A case that is read from a line.
pub trait LineCase: Sized {
    /// Reads a line; the error says what is wrong with it.
    fn parse(line: &str) -> std::result::Result<Self, String>;
}

/// Reads the cases of a file, one in memory at a time.
pub struct CaseReader<C> {
    lines: JsonLines,
    count: u64,
    case: PhantomData<C>,
}

impl<C: LineCase> CaseReader<C> {
    /// Reads the cases from these lines.
    pub fn new(lines: JsonLines) -> CaseReader<C> {
        CaseReader { lines, count: 0, case: PhantomData }
    }

    /// The next case. A file without any is an error.
    pub fn read(&mut self) -> Result<Option<C>> {
        let Some(line) = self.lines.read()? else {
            if self.count == 0 {
                return Err(Error::Empty { file: self.lines.file().to_owned(), what: "no case" });
            }
            return Ok(None);
        };
        self.count += 1;
        match C::parse(line) {
            Ok(case) => Ok(Some(case)),
            Err(why) => Err(self.lines.line_error(why)),
        }
    }
}
