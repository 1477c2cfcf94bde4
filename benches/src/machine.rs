//! What Linux tells of processes and of the machine; elsewhere it is not known.

use std::fs;
use std::time::Duration;

/// The machine, at one time.
#[derive(Default)]
pub(crate) struct Machine {
    processor: Option<String>,
    cores: usize,
    load: Option<String>,
}

/// The memory of a process.
pub(crate) struct Memory {
    /// Bytes in use now.
    pub(crate) now: u64,
    /// The most there ever were.
    pub(crate) peak: u64,
    /// Of those in use now, pages of files: they can be taken away at any time.
    pub(crate) files: u64,
}

/// What the kernel counts processor time in, whatever its own clock: a hundredth of a second.
const TICKS: u64 = 100;

/// The memory of this process, if it can be known.
pub(crate) fn memory() -> Option<Memory> {
    memory_of("self")
}

/// The memory of the process of that number, if it can be known.
pub(crate) fn memory_of(process: &str) -> Option<Memory> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
    };
    Some(Memory { now: field("VmRSS:")?, peak: field("VmHWM:")?, files: field("RssFile:")? })
}

/// The processor time that the thread of that name has taken, if it can be known.
pub(crate) fn thread_time(name: &str) -> Option<Duration> {
    for task in fs::read_dir("/proc/self/task").ok()? {
        let folder = task.ok()?.path();
        if fs::read_to_string(folder.join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            let nanos = fs::read_to_string(folder.join("schedstat")).ok()?;
            return nanos.split_whitespace().next()?.parse().ok().map(Duration::from_nanos);
        }
    }
    None
}

/// The processor time that all threads of this process have taken, those that ended too, if it can be known.
pub(crate) fn process_time() -> Option<Duration> {
    time("self", 11)
}

/// The same of the process of that number.
pub(crate) fn time_of(process: &str) -> Option<Duration> {
    time(process, 11)
}

/// The same of all processes that this one started and waited for.
pub(crate) fn time_of_children() -> Option<Duration> {
    time("self", 13)
}

/// User and system time, which stand side by side so many fields behind a process's name.
fn time(process: &str, fields_before: usize) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(fields_before);
    let (user, system): (u64, u64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    Some(Duration::from_millis((user + system) * 1000 / TICKS))
}

// === impl Machine ===

impl Machine {
    pub(crate) fn now() -> Machine {
        let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = information.lines().find(|line| line.starts_with("model name"));
        Machine {
            processor: processor.and_then(|line| line.split_once(": ")).map(|(_, name)| name.to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            load: fs::read_to_string("/proc/loadavg")
                .ok()
                .and_then(|text| text.split_whitespace().next().map(str::to_owned)),
        }
    }

    pub(crate) fn in_words(&self) -> String {
        format!("{} cores of {}", self.cores, self.processor.as_deref().unwrap_or("an unknown processor"))
    }

    /// How many threads wanted to run, averaged over the last minute.
    pub(crate) fn load(&self) -> &str {
        self.load.as_deref().unwrap_or("unknown")
    }
}
