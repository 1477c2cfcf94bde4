//! A row of the trace: an instance with its requests, limits and times.

use std::fmt;

/// The first line.
pub(super) const HEADER: &str = "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,\
    rdma_limit,memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,\
    deletion_time";

/// The longest name: that of a pod or a label value.
const MAX_NAME_LENGTH: usize = 63;
/// The largest amount: a million cores, devices or GiB.
const MAX_AMOUNT: f64 = 1e6;
/// The latest time: about ten years.
const MAX_SECONDS: f64 = 315_360_000.0;

/// An instance.
pub(super) struct InstanceRow {
    pub(super) name: String,
    pub(super) spec: InstanceSpec,
    pub(super) times: InstanceTimes,
}

/// The part of a row that makes its pod template.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct InstanceSpec {
    pub(super) app: Box<str>,
    pub(super) role: Role,
    pub(super) requests: ResourceAmounts,
    pub(super) limits: ResourceAmounts,
    /// The most instances of the service per node; `None` for no limit.
    pub(super) max_per_node: Option<i32>,
}

/// The kind of node an instance needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// Without GPUs.
    Cn,
    /// With GPUs.
    Hn,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct ResourceAmounts {
    pub(super) cpu: MilliCpu,
    pub(super) memory: ByteAmount,
    pub(super) disk: ByteAmount,
    pub(super) gpus: i64,
    /// Hundredths of an RDMA card.
    pub(super) rdma: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Hash)]
pub(super) struct MilliCpu(pub(super) i64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Hash)]
pub(super) struct ByteAmount(pub(super) i64);

/// Times in nanoseconds since the trace began.
#[derive(Clone, Copy)]
pub(super) struct InstanceTimes {
    /// `None` if before the trace began.
    pub(super) created: Option<i64>,
    /// `None` if before the trace began, or never if `created` is set.
    pub(super) scheduled: Option<i64>,
    /// `None` if after the trace ended.
    pub(super) deleted: Option<i64>,
}

/// An invalid row, with the column if a single one is wrong.
#[derive(Debug)]
pub(super) struct BadRow {
    pub(super) column: Option<&'static str>,
    pub(super) why: String,
}

type RowResult<T> = std::result::Result<T, BadRow>;

/// The fields of a row, taken one after the other.
struct RowFields<'a> {
    texts: std::str::Split<'a, char>,
    columns: std::str::Split<'static, char>,
}

// === impl InstanceRow ===

impl InstanceRow {
    pub(super) fn parse(line: &str) -> RowResult<InstanceRow> {
        let (count, needed) = (line.split(',').count(), HEADER.split(',').count());
        if count != needed {
            let why = format!("{count} fields, expected {needed} as in the header");
            return Err(BadRow { column: None, why });
        }
        let mut fields = RowFields { texts: line.split(','), columns: HEADER.split(',') };
        let name = fields.name()?;
        let role = fields.role()?;
        let app = fields.name()?.into();
        let cpu =
            fields.request_and_limit(|fields| Ok(MilliCpu((fields.read_amount()? * 1e3).round() as i64)))?;
        let gpus = fields.device_count()?;
        let rdma = fields.device_count()?;
        let memory = fields.request_and_limit(RowFields::gibibytes)?;
        let disk = fields.request_and_limit(RowFields::gibibytes)?;
        let most_per_node = fields.max_per_node()?;
        let created = fields.time(None)?;
        let scheduled = fields.time(created)?;
        let deleted = fields.time(scheduled.or(created))?;
        let requests = ResourceAmounts { cpu: cpu.0, memory: memory.0, disk: disk.0, gpus, rdma };
        let limits = ResourceAmounts { cpu: cpu.1, memory: memory.1, disk: disk.1, gpus, rdma };
        let spec = InstanceSpec { app, role, requests, limits, max_per_node: most_per_node };
        Ok(InstanceRow { name, spec, times: InstanceTimes { created, scheduled, deleted } })
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

// === impl ByteAmount ===

impl fmt::Display for ByteAmount {
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

// === impl InstanceTimes ===

impl InstanceTimes {
    /// When the instance first exists in the trace.
    pub(super) fn start(&self) -> i64 {
        self.created.unwrap_or(0)
    }

    /// Whether the time of scheduling is missing because it was before the trace began.
    pub(super) fn was_scheduled_before_trace(&self) -> bool {
        self.created.is_none() && self.scheduled.is_none()
    }
}

// === impl RowFields ===

impl RowFields<'_> {
    /// A name: valid as a label value, and as a pod name once `object_name` is applied.
    fn name(&mut self) -> RowResult<String> {
        self.read_field(|text| {
            let is_inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            let is_valid_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
            let is_valid = text.len() <= MAX_NAME_LENGTH && text.chars().all(is_inner);
            (is_valid && is_valid_end(text.chars().next()) && is_valid_end(text.chars().next_back()))
                .then(|| text.to_owned())
                .ok_or(format!(
                    "a name must have at most {MAX_NAME_LENGTH} letters, digits, -, _ and ., and begin and end with a letter or digit"
                ))
        })
    }

    fn role(&mut self) -> RowResult<Role> {
        self.read_field(|text| match text {
            "CN" => Ok(Role::Cn),
            "HN" => Ok(Role::Hn),
            _ => Err("the role must be CN or HN".to_owned()),
        })
    }

    fn read_amount(&mut self) -> RowResult<f64> {
        self.read_field(parse_amount)
    }

    fn gibibytes(&mut self) -> RowResult<ByteAmount> {
        let gibibyte = f64::from(1 << 30);
        Ok(ByteAmount((self.read_amount()? * gibibyte).round() as i64))
    }

    /// A request and its limit.
    fn request_and_limit<T: PartialOrd>(
        &mut self,
        parse_value: impl Fn(&mut Self) -> RowResult<T>,
    ) -> RowResult<(T, T)> {
        let request = parse_value(self)?;
        let column = self.columns.clone().next();
        let limit = parse_value(self)?;
        if limit < request {
            return Err(BadRow { column, why: "the limit is less than the request".to_owned() });
        }
        Ok((request, limit))
    }

    /// The request and limit of an extended resource, which Kubernetes requires to be whole and equal.
    fn device_count(&mut self) -> RowResult<i64> {
        let whole = |text: &str| match parse_amount(text)? {
            number if number.fract() == 0.0 => Ok(number as i64),
            _ => Err("not an integer".to_owned()),
        };
        let request = self.read_field(whole)?;
        self.read_field(|text| match whole(text)? {
            limit if limit == request => Ok(limit),
            _ => Err(format!("must equal the request, {request}")),
        })
    }

    fn max_per_node(&mut self) -> RowResult<Option<i32>> {
        self.read_field(|text| match text.parse() {
            Ok(-1) => Ok(None),
            Ok(most @ 1..) => Ok(Some(most)),
            _ => Err("must be an integer of at least 1, or -1 for no limit".to_owned()),
        })
    }

    /// A time, not before `earliest`. Outside the trace it is empty; the trace's documentation says `NaN`.
    fn time(&mut self, earliest: Option<i64>) -> RowResult<Option<i64>> {
        self.read_field(|text| {
            if text.is_empty() || text.eq_ignore_ascii_case("nan") {
                return Ok(None);
            }
            let seconds: f64 =
                text.parse().ok().filter(|seconds| (0.0..=MAX_SECONDS).contains(seconds)).ok_or(format!(
                    "a time must be a number of seconds from 0 to {MAX_SECONDS}, or empty if outside the trace"
                ))?;
            // The trace has times such as 475.00000000000006.
            let nanos = (seconds * 1e6).round() as i64 * 1000;
            match earliest {
                Some(earliest) if nanos < earliest => {
                    Err("out of order: creation, scheduling and deletion must follow each other".to_owned())
                }
                _ => Ok(Some(nanos)),
            }
        })
    }

    fn read_field<T>(&mut self, parse: impl FnOnce(&str) -> std::result::Result<T, String>) -> RowResult<T> {
        let column = self.columns.next();
        let text = self.texts.next().unwrap_or_default();
        parse(text).map_err(|why| {
            let text: String = text.chars().take(40).collect();
            BadRow { column, why: format!("{text:?}: {why}") }
        })
    }
}

fn parse_amount(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=MAX_AMOUNT).contains(number));
    number.ok_or(format!("an amount must be a number from 0 to {MAX_AMOUNT}"))
}
