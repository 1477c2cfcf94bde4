//! Memory and processor time of processes, and a description of the machine, from Linux's `/proc`. Unknown elsewhere.

use std::fs;
use std::time::Duration;

/// A description of the machine, with its load at one time.
#[derive(Default)]
pub(crate) struct Machine {
    processor: Option<String>,
    cores: usize,
    load: Option<String>,
}

/// The memory of a process.
pub(crate) struct ProcessMemory {
    /// The current resident set size, in bytes.
    pub(crate) now: u64,
    /// The peak resident set size.
    pub(crate) peak: u64,
    /// The part of the current size that is mapped file pages, which the kernel can reclaim at any time.
    pub(crate) file_pages: u64,
}

/// The kernel reports processor time in hundredths of a second, independent of its internal clock rate.
const TICKS_PER_SECOND: u64 = 100;

/// The memory of this process, if known.
pub(crate) fn memory() -> Option<ProcessMemory> {
    memory_of("self")
}

/// The memory of the process with this ID, if known.
pub(crate) fn memory_of(process: &str) -> Option<ProcessMemory> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
    };
    Some(ProcessMemory { now: field("VmRSS:")?, peak: field("VmHWM:")?, file_pages: field("RssFile:")? })
}

/// The processor time used by the thread of this name, if known.
pub(crate) fn thread_cpu_time(name: &str) -> Option<Duration> {
    for task in fs::read_dir("/proc/self/task").ok()? {
        let folder = task.ok()?.path();
        if fs::read_to_string(folder.join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            let nanos = fs::read_to_string(folder.join("schedstat")).ok()?;
            return nanos.split_whitespace().next()?.parse().ok().map(Duration::from_nanos);
        }
    }
    None
}

/// The processor time used by all threads of this process, including ended ones, if known.
pub(crate) fn process_cpu_time() -> Option<Duration> {
    cpu_time("self", 11)
}

/// The processor time used by the process with this ID, if known.
pub(crate) fn cpu_time_of(process: &str) -> Option<Duration> {
    cpu_time(process, 11)
}

/// The processor time used by all child processes that were waited for, if known.
pub(crate) fn children_cpu_time() -> Option<Duration> {
    cpu_time("self", 13)
}

/// User plus system time, two adjacent fields of `/proc/PROCESS/stat`, `fields_before` fields after the name.
fn cpu_time(process: &str, fields_before: usize) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(fields_before);
    let (user, system): (u64, u64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    Some(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
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

    pub(crate) fn description(&self) -> String {
        format!("{} cores of {}", self.cores, self.processor.as_deref().unwrap_or("an unknown processor"))
    }

    /// The load average over the last minute.
    pub(crate) fn load(&self) -> &str {
        self.load.as_deref().unwrap_or("unknown")
    }
}
