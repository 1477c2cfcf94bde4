//! A whole trace in memory: its rows are not sorted by time.

use std::collections::HashMap;
use std::io::{BufRead, Read};

use super::objects::{Workload, object_name};
use super::rows::{HEADER, InstanceRow, InstanceSpec, InstanceTimes, Role};
use crate::{Error, Input, Result};

/// The most instances, forty times those of the published trace. They are held in memory, a few hundred bytes each.
const MAX_INSTANCES: usize = 1_000_000;
/// The longest line, many times what a row needs.
const MAX_LINE_BYTES: u64 = 4096;

pub(super) struct Trace {
    pub(super) workloads: Vec<Workload>,
    pub(super) instances: Vec<Instance>,
}

pub(super) struct Instance {
    /// Its pod's name.
    pub(super) name: Box<str>,
    /// Its index among the workloads.
    pub(super) workload: u32,
    pub(super) times: InstanceTimes,
    line: u64,
}

/// The workloads found so far, by spec.
#[derive(Default)]
struct WorkloadIndex {
    by_spec: HashMap<InstanceSpec, u32>,
    /// The number of workloads per service and role, by their object names.
    counts: HashMap<(String, Role), u32>,
}

// === impl Trace ===

impl Trace {
    pub(super) fn read(mut input: Input) -> Result<Trace> {
        let mut trace = Trace { workloads: Vec::new(), instances: Vec::new() };
        let mut shapes = WorkloadIndex::default();
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            let length = input.reader.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line);
            if length.map_err(|source| Error::cannot_read(&input.name, source))? == 0 {
                if number == 1 {
                    return Err(Error::invalid_file(
                        &input.name,
                        format!("empty; the first line must be {HEADER}"),
                    ));
                }
                break;
            }
            let invalid_line = |why: String| Error::invalid_line(&input.name, number, why);
            if line.len() as u64 > MAX_LINE_BYTES {
                return Err(invalid_line(format!("longer than {MAX_LINE_BYTES} bytes")));
            }
            let text = std::str::from_utf8(&line)
                .map_err(|error| invalid_line(format!("byte {} is not UTF-8", error.valid_up_to())))?;
            let text = text.strip_prefix('\u{feff}').filter(|_| number == 1).unwrap_or(text).trim();
            if number == 1 && text != HEADER {
                return Err(invalid_line(format!("the header must be {HEADER}")));
            }
            if number == 1 || text.is_empty() {
                continue;
            }
            if trace.instances.len() == MAX_INSTANCES {
                return Err(invalid_line(format!("more than {MAX_INSTANCES} instances: split the trace")));
            }
            let row = InstanceRow::parse(text).map_err(|bad_row| match bad_row.column {
                Some(column) => {
                    Error::invalid_at(&input.name, format_args!("line {number}, {column}"), bad_row.why)
                }
                None => invalid_line(bad_row.why),
            })?;
            trace.add(number, row, &mut shapes);
        }
        trace.check_names(&input.name)?;
        Ok(trace)
    }

    fn add(&mut self, line: u64, row: InstanceRow, shapes: &mut WorkloadIndex) {
        let InstanceRow { name, spec, times: life } = row;
        let workload = *shapes.by_spec.entry(spec).or_insert_with_key(|spec| {
            let number = shapes.counts.entry((object_name(&spec.app), spec.role)).or_default();
            *number += 1;
            self.workloads.push(Workload::new(spec.clone(), *number, life.created));
            u32::try_from(self.workloads.len() - 1).expect("there are at most as many workloads as instances")
        });
        let existing = &mut self.workloads[workload as usize];
        existing.created = existing.created.min(life.created);
        self.instances.push(Instance { name: object_name(&name).into(), workload, times: life, line });
    }

    /// Checks that pod names are unique.
    fn check_names(&self, file: &str) -> Result<()> {
        let mut names: Vec<(&str, u64)> =
            self.instances.iter().map(|instance| (&*instance.name, instance.line)).collect();
        names.sort_unstable();
        let double = names.windows(2).filter(|pair| pair[0].0 == pair[1].0).min_by_key(|pair| pair[1].1);
        let Some([(name, first), (_, line)]) = double else { return Ok(()) };
        let why = format!(
            "duplicate name {name}, see line {first}; names must be unique in lower case and with - for _ and ."
        );
        Err(Error::invalid_at(file, format_args!("line {line}, instance_sn"), why))
    }
}
