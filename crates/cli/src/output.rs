//! Where commands write: their answer, and what is said beside it.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

use super::escaping::EscapingWriter;

pub(super) use query::bytes;
pub(super) use query::counted;
pub(super) use query::grouped;
pub(super) use query::span;

/// What a history says was removed.
pub(super) const OLD: Style = AnsiColor::Red.on_default();
/// What a history says was added.
pub(super) const NEW: Style = AnsiColor::Green.on_default();
/// Headings.
pub(super) const HEADING: Style = AnsiColor::Yellow.on_default();

/// The answer goes to standard output; warnings and progress go to standard error, so that the answer can be piped.
///
/// Everything that the program prints goes through here, and here control characters become visible.
pub(super) struct Out {
    /// Words. Colours are taken out of them where nobody sees any.
    answer: Box<dyn Write>,
    /// Data, which goes to the same place, byte for byte if that is no terminal.
    data: Box<dyn Write>,
    aside: Box<dyn Write>,
    is_terminal: bool,
    width: Option<usize>,
}

// === impl Out ===

impl Out {
    pub(super) fn new() -> Out {
        let data = io::BufWriter::with_capacity(1 << 16, io::stdout());
        Out {
            answer: styled(io::BufWriter::new(anstream::stdout())),
            data: match io::stdout().is_terminal() {
                true => Box::new(EscapingWriter::new(data, Vec::new())),
                false => Box::new(data),
            },
            aside: styled(anstream::stderr()),
            is_terminal: io::stderr().is_terminal(),
            width: terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0)),
        }
    }

    /// Both kinds of output into one place that has so many columns, for a command that runs others.
    pub(super) fn into_one(writer: impl Write + Clone + 'static, width: Option<usize>) -> Out {
        Out {
            answer: styled(writer.clone()),
            data: Box::new(writer.clone()),
            aside: styled(writer),
            is_terminal: false,
            width,
        }
    }

    /// Where data goes: what is written there may be anything, and is changed only for a terminal.
    pub(super) fn data(&mut self) -> io::Result<&mut dyn Write> {
        self.answer.flush()?;
        Ok(&mut *self.data)
    }

    /// Repeats a line that went through another `Out` already: the styles in it pass.
    pub(super) fn repeat(&mut self, line: &str) -> io::Result<()> {
        let mut rest = line;
        while let Some(at) = rest.find('\x1b') {
            let (text, styled) = rest.split_at(at);
            let (style, after) = styled.split_at(styled.find('m').map_or(styled.len(), |end| end + 1));
            self.answer.write_all(text.as_bytes())?;
            self.answer.write_all(style.as_bytes())?;
            rest = after;
        }
        writeln!(self.answer, "{rest}")
    }

    /// How many columns the answer may have; `None` if it does not go to a terminal.
    pub(super) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Whether someone watches: progress is shown to nobody else.
    pub(super) fn is_watched(&self) -> bool {
        self.is_terminal
    }

    /// Says something beside the answer.
    pub(super) fn complain(&mut self, text: &str) {
        // With nowhere to complain there is nothing left to do.
        let _ = self.flush();
        let _ = writeln!(self.aside, "{text}");
    }

    /// Says what happened while something may have been missed.
    pub(super) fn warn_of_gaps<'a>(&mut self, gaps: impl Iterator<Item = &'a model::Gap>) {
        for gap in gaps {
            self.complain(&format!("warning: {}", query::gap_in_words(gap)));
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.answer.flush()?;
        self.data.flush()
    }
}

/// A writer of words, in which no style is known but ours.
fn styled(writer: impl Write + 'static) -> Box<dyn Write> {
    let styles = [OLD, NEW, HEADING].iter().flat_map(|style| [style.to_string(), format!("{style:#}")]);
    Box::new(EscapingWriter::new(writer, styles.collect()))
}

/// Whether an error is only that nobody reads on.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// 1,234 times, 2.5 times: how much faster something goes.
pub(super) fn times(factor: f64) -> String {
    if factor < 10.0 { format!("{factor:.1} times") } else { format!("{} times", grouped(factor as u64)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_sizes_named() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(12_345), "12.3 kB");
        assert_eq!(bytes(999_999), "1.0 MB");
        assert_eq!(bytes(5_000_000_000_000), "5.0 TB");
        assert_eq!(span(35_900_000), "35ms");
        assert_eq!(span(1_950_000_000), "1.9s");
        assert_eq!(span(125_000_000_000), "2m5s");
    }
}
