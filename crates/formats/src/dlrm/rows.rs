//! A row of the trace: an instance, what it asks for and how long it lived.

use std::fmt;

/// The first line.
pub(super) const HEADER: &str = "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,\
    rdma_limit,memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,\
    deletion_time";

/// A pod's name and a label's value may be so long.
const MAX_NAME: usize = 63;
/// No amount is larger: a million cores, devices or GiB.
const MAX_AMOUNT: f64 = 1e6;
/// No time is later: about ten years.
const MAX_SECONDS: f64 = 315_360_000.0;

/// An instance.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) life: Life,
}

/// What instances of one template have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) app: Box<str>,
    pub(super) role: Role,
    pub(super) requests: Amounts,
    pub(super) limits: Amounts,
    /// How many instances of the service a node may have; `None` if nobody counts.
    pub(super) most_per_node: Option<i32>,
}

/// What kind of node an instance is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// Without GPUs.
    Cn,
    /// With GPUs.
    Hn,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Amounts {
    pub(super) cpu: MilliCpu,
    pub(super) memory: Bytes,
    pub(super) disk: Bytes,
    pub(super) gpus: i64,
    /// Hundredths of an RDMA card.
    pub(super) rdma: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Hash)]
pub(super) struct MilliCpu(pub(super) i64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Hash)]
pub(super) struct Bytes(pub(super) i64);

/// Times in nanoseconds since the trace began.
#[derive(Clone, Copy)]
pub(super) struct Life {
    /// `None`: before the trace began.
    pub(super) created: Option<i64>,
    /// `None`: before the trace began, or never if it was created later.
    pub(super) scheduled: Option<i64>,
    /// `None`: after the trace ended.
    pub(super) deleted: Option<i64>,
}

/// What is wrong with a row, and in which column if it is one.
#[derive(Debug)]
pub(super) struct BadRow {
    pub(super) column: Option<&'static str>,
    pub(super) why: String,
}

type Fit<T> = std::result::Result<T, BadRow>;

/// The fields of a row, taken one after the other.
struct Fields<'a> {
    texts: std::str::Split<'a, char>,
    columns: std::str::Split<'static, char>,
}

// === impl Row ===

impl Row {
    pub(super) fn parse(line: &str) -> Fit<Row> {
        let (count, needed) = (line.split(',').count(), HEADER.split(',').count());
        if count != needed {
            let why = format!("{count} fields, but a row has {needed}, as the header has");
            return Err(BadRow { column: None, why });
        }
        let mut fields = Fields { texts: line.split(','), columns: HEADER.split(',') };
        let name = fields.name()?;
        let role = fields.role()?;
        let app = fields.name()?.into();
        let cpu = fields.pair(|fields| Ok(MilliCpu((fields.amount()? * 1e3).round() as i64)))?;
        let gpus = fields.device()?;
        let rdma = fields.device()?;
        let memory = fields.pair(Fields::gibibytes)?;
        let disk = fields.pair(Fields::gibibytes)?;
        let most_per_node = fields.most()?;
        let created = fields.time(None)?;
        let scheduled = fields.time(created)?;
        let deleted = fields.time(scheduled.or(created))?;
        let requests = Amounts { cpu: cpu.0, memory: memory.0, disk: disk.0, gpus, rdma };
        let limits = Amounts { cpu: cpu.1, memory: memory.1, disk: disk.1, gpus, rdma };
        let shape = Shape { app, role, requests, limits, most_per_node };
        Ok(Row { name, shape, life: Life { created, scheduled, deleted } })
    }
}

// === impl Role ===

impl Role {
    /// As the trace writes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Cn => "CN",
            Role::Hn => "HN",
        }
    }
}

// === impl MilliCpu ===

impl fmt::Display for MilliCpu {
    /// As Kubernetes writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 % 1000 == 0 { write!(f, "{}", self.0 / 1000) } else { write!(f, "{}m", self.0) }
    }
}

// === impl Bytes ===

impl fmt::Display for Bytes {
    /// As Kubernetes writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(30, "Gi"), (20, "Mi"), (10, "Ki")] {
            if self.0 % (1 << shift) == 0 {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

// === impl Life ===

impl Life {
    /// When the instance is first there.
    pub(super) fn start(&self) -> i64 {
        self.created.unwrap_or(0)
    }

    /// Whether nothing tells when it was scheduled because that was before the trace began.
    pub(super) fn was_scheduled_before(&self) -> bool {
        self.created.is_none() && self.scheduled.is_none()
    }
}

// === impl Fields ===

impl Fields<'_> {
    /// A name: the value of a label, and all but the name of a pod.
    fn name(&mut self) -> Fit<String> {
        self.read(|text| {
            let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
            let fits = text.len() <= MAX_NAME && text.chars().all(inner);
            (fits && ends(text.chars().next()) && ends(text.chars().next_back()))
                .then(|| text.to_owned())
                .ok_or(format!(
                    "a name has at most {MAX_NAME} letters, digits, -, _ and ., and begins and ends with a letter or \
                     digit"
                ))
        })
    }

    fn role(&mut self) -> Fit<Role> {
        self.read(|text| match text {
            "CN" => Ok(Role::Cn),
            "HN" => Ok(Role::Hn),
            _ => Err("a role is CN or HN".to_owned()),
        })
    }

    fn amount(&mut self) -> Fit<f64> {
        self.read(amount)
    }

    fn gibibytes(&mut self) -> Fit<Bytes> {
        let gibibyte = f64::from(1 << 30);
        Ok(Bytes((self.amount()? * gibibyte).round() as i64))
    }

    /// A request and its limit.
    fn pair<T: PartialOrd>(&mut self, take: impl Fn(&mut Self) -> Fit<T>) -> Fit<(T, T)> {
        let request = take(self)?;
        let column = self.columns.clone().next();
        let limit = take(self)?;
        if limit < request {
            return Err(BadRow {
                column,
                why: "less than the request; it must be as much or more".to_owned(),
            });
        }
        Ok((request, limit))
    }

    /// A request and limit of what Kubernetes gives whole, and no more of than was asked for.
    fn device(&mut self) -> Fit<i64> {
        let whole = |text: &str| match amount(text)? {
            number if number.fract() == 0.0 => Ok(number as i64),
            _ => Err("not a whole number".to_owned()),
        };
        let request = self.read(whole)?;
        self.read(|text| match whole(text)? {
            limit if limit == request => Ok(limit),
            _ => Err(format!("not the request, {request}, which it must be")),
        })
    }

    fn most(&mut self) -> Fit<Option<i32>> {
        self.read(|text| match text.parse() {
            Ok(-1) => Ok(None),
            Ok(most @ 1..) => Ok(Some(most)),
            _ => Err("it is a whole number from 1, or -1 for as many as there is room for".to_owned()),
        })
    }

    /// A time, not before another of the same instance. Outside the trace it is empty; its description says `NaN`.
    fn time(&mut self, earliest: Option<i64>) -> Fit<Option<i64>> {
        self.read(|text| {
            if text.is_empty() || text.eq_ignore_ascii_case("nan") {
                return Ok(None);
            }
            let seconds: f64 =
                text.parse().ok().filter(|seconds| (0.0..=MAX_SECONDS).contains(seconds)).ok_or(format!(
                    "a time is a number of seconds from 0 to {MAX_SECONDS}, or empty outside the trace"
                ))?;
            // The trace has times such as 475.00000000000006.
            let nanos = (seconds * 1e6).round() as i64 * 1000;
            match earliest {
                Some(earliest) if nanos < earliest => {
                    Err("earlier than what must come before it: creation, scheduling, deletion".to_owned())
                }
                _ => Ok(Some(nanos)),
            }
        })
    }

    fn read<T>(&mut self, parse: impl FnOnce(&str) -> std::result::Result<T, String>) -> Fit<T> {
        let column = self.columns.next();
        let text = self.texts.next().unwrap_or_default();
        parse(text).map_err(|why| {
            let text: String = text.chars().take(40).collect();
            BadRow { column, why: format!("{text:?}: {why}") }
        })
    }
}

fn amount(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=MAX_AMOUNT).contains(number));
    number.ok_or(format!("an amount is a number from 0 to {MAX_AMOUNT}"))
}
