//! The program's output: results on standard output, diagnostics on standard error.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

use super::escaping::EscapingWriter;

pub(super) use query::count_noun;
pub(super) use query::format_bytes;
pub(super) use query::format_duration;
pub(super) use query::group_digits;

/// The style of removed values and negative results.
pub(super) const OLD: Style = AnsiColor::Red.on_default();
/// The style of added values and positive results.
pub(super) const NEW: Style = AnsiColor::Green.on_default();
/// The style of headings and labels.
pub(super) const HEADING: Style = AnsiColor::Yellow.on_default();

/// Results go to standard output; warnings, progress and summaries to standard error, so that results can be piped.
///
/// Everything that the program prints goes through here, where control characters are escaped.
pub(super) struct Printer {
    /// Text on standard output. Colors are removed where it is not a terminal.
    text: Box<dyn Write>,
    /// Data on standard output: escaped on a terminal, otherwise written byte for byte.
    data: Box<dyn Write>,
    diagnostics: Box<dyn Write>,
    is_stderr_terminal: bool,
    width: Option<usize>,
}

// === impl Printer ===

impl Printer {
    pub(super) fn new() -> Printer {
        let data = io::BufWriter::with_capacity(1 << 16, io::stdout());
        Printer {
            text: escaping_writer(io::BufWriter::new(anstream::stdout())),
            data: match io::stdout().is_terminal() {
                true => Box::new(EscapingWriter::new(data, Vec::new())),
                false => Box::new(data),
            },
            diagnostics: escaping_writer(anstream::stderr()),
            is_stderr_terminal: io::stderr().is_terminal(),
            width: terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0)),
        }
    }

    /// Sends both standard output and standard error to one writer of this width, for a command that runs others.
    pub(super) fn combined(writer: impl Write + Clone + 'static, width: Option<usize>) -> Printer {
        Printer {
            text: escaping_writer(writer.clone()),
            data: Box::new(writer.clone()),
            diagnostics: escaping_writer(writer),
            is_stderr_terminal: false,
            width,
        }
    }

    /// The writer for data, which may be any bytes: it is escaped only on a terminal.
    pub(super) fn data(&mut self) -> io::Result<&mut dyn Write> {
        self.text.flush()?;
        Ok(&mut *self.data)
    }

    /// Prints a line that another [`Printer`] has escaped already, and keeps its styles.
    pub(super) fn write_escaped_line(&mut self, line: &str) -> io::Result<()> {
        let mut rest = line;
        while let Some(at) = rest.find('\x1b') {
            let (text, styled) = rest.split_at(at);
            let (style, after) = styled.split_at(styled.find('m').map_or(styled.len(), |end| end + 1));
            self.text.write_all(text.as_bytes())?;
            self.text.write_all(style.as_bytes())?;
            rest = after;
        }
        writeln!(self.text, "{rest}")
    }

    /// The width of the terminal; `None` if standard output is not a terminal.
    pub(super) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Whether standard error is a terminal: progress is shown only there.
    pub(super) fn shows_progress(&self) -> bool {
        self.is_stderr_terminal
    }

    /// Prints a line on standard error.
    pub(super) fn print_to_stderr(&mut self, text: &str) {
        // A failure to write to standard error cannot be reported.
        let _ = self.flush();
        let _ = writeln!(self.diagnostics, "{text}");
    }

    /// Warns of gaps, in which changes may have been missed.
    pub(super) fn warn_of_gaps<'a>(&mut self, gaps: impl Iterator<Item = &'a model::Gap>) {
        for gap in gaps {
            self.print_to_stderr(&format!("warning: {}", query::gap_as_text(gap)));
        }
    }
}

impl Write for Printer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.text.flush()?;
        self.data.flush()
    }
}

/// A writer that escapes everything but the styles of this program.
fn escaping_writer(writer: impl Write + 'static) -> Box<dyn Write> {
    let styles = [OLD, NEW, HEADING].iter().flat_map(|style| [style.to_string(), format!("{style:#}")]);
    Box::new(EscapingWriter::new(writer, styles.collect()))
}

/// Whether the error is a broken pipe: the reader has closed it.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// A speed factor as text: `1,234 times`, `2.5 times`.
pub(super) fn speed_text(factor: f64) -> String {
    if factor < 10.0 {
        format!("{factor:.1} times")
    } else {
        format!("{} times", group_digits(factor as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_sizes_named() {
        assert_eq!(group_digits(0), "0");
        assert_eq!(group_digits(999), "999");
        assert_eq!(group_digits(1_234_567), "1,234,567");
        assert_eq!(format_bytes(999), "999 B");
        assert_eq!(format_bytes(12_345), "12.3 kB");
        assert_eq!(format_bytes(999_999), "1.0 MB");
        assert_eq!(format_bytes(5_000_000_000_000), "5.0 TB");
        assert_eq!(format_duration(35_900_000), "35ms");
        assert_eq!(format_duration(1_950_000_000), "1.9s");
        assert_eq!(format_duration(125_000_000_000), "2m5s");
    }
}
