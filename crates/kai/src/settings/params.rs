//! The scheduler's command line parameters.

use kubernetes::labels::Labels;
use kubernetes::read::parse_text;
use serde::Deserialize;

use crate::{Error, Result};

/// The scheduler's command line parameters. A parameter that is absent from a snapshot is false, zero or empty: the
/// flags' defaults do not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerParams {
    /// The scheduler of pods that count for queues.
    pub scheduler_name: String,
    /// Whether only nodes with a worker label are used.
    pub restrict_scheduling_nodes: bool,
    /// The nodes, queues and pod groups of this scheduler.
    pub node_pool: NodePool,
    /// The most jobs that consolidation moves for a job; -1 for any number.
    pub max_consolidation_preemptees: i64,
    /// Whether jobs like one that failed are not tried.
    pub use_scheduling_signatures: bool,
    /// Whether all levels of queues share, not only the lowest.
    pub full_hierarchy_fairness: bool,
    /// Whether pods that get another place do not count as reclaimed.
    pub allow_consolidating_reclaim: bool,
    /// How long a job may run with fewer pods than it needs, in nanoseconds; negative for ever.
    pub staleness_grace_period: i64,
    /// When a pod that is being deleted is not waited for any more, in nanoseconds.
    pub stuck_in_releasing_threshold: i64,
}

/// The nodes, queues and pod groups of a scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePool {
    /// The label that selects them; empty for all.
    pub label_key: String,
    /// Its value; empty for those without the label.
    pub label_value: String,
}

const DEFAULT_STUCK_IN_RELEASING: i64 = 120_000_000_000;
const DEFAULT_POOL: &str = "default";

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ParamsJson {
    scheduler_name: Option<String>,
    restrict_scheduling_nodes: Option<bool>,
    partition_params: Option<serde_json::Map<String, serde_json::Value>>,
    max_number_consolidation_preemptees: Option<i64>,
    #[serde(rename = "scheduleCSIStorage")]
    schedule_csi_storage: Option<bool>,
    use_scheduling_signatures: Option<bool>,
    full_hierarchy_fairness: Option<bool>,
    allow_consolidating_reclaim: Option<bool>,
    global_default_staleness_grace_period: Option<i64>,
    stuck_in_releasing_threshold: Option<i64>,
}

impl SchedulerParams {
    /// Reads the JSON text of `schedulerParams`.
    pub fn parse(text: &str) -> Result<SchedulerParams> {
        let json: ParamsJson =
            parse_text("schedulerParams", text).map_err(|why| Error::setting("schedulerParams", why))?;
        if json.schedule_csi_storage == Some(true) {
            let why = "scheduling by CSI storage capacity is not supported: expected false";
            return Err(Error::setting("schedulerParams.scheduleCSIStorage", why));
        }
        // Go matches names of fields case-insensitively.
        let pool = |name: &str| {
            let fields = json.partition_params.iter().flatten();
            let field = fields.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            field.and_then(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
        };
        let threshold = json.stuck_in_releasing_threshold.filter(|threshold| *threshold > 0);
        Ok(SchedulerParams {
            node_pool: NodePool {
                label_key: pool("NodePoolLabelKey"),
                label_value: pool("NodePoolLabelValue"),
            },
            scheduler_name: json.scheduler_name.unwrap_or_default(),
            restrict_scheduling_nodes: json.restrict_scheduling_nodes.unwrap_or_default(),
            max_consolidation_preemptees: json.max_number_consolidation_preemptees.unwrap_or_default(),
            use_scheduling_signatures: json.use_scheduling_signatures.unwrap_or_default(),
            full_hierarchy_fairness: json.full_hierarchy_fairness.unwrap_or_default(),
            allow_consolidating_reclaim: json.allow_consolidating_reclaim.unwrap_or_default(),
            staleness_grace_period: json.global_default_staleness_grace_period.unwrap_or_default(),
            stuck_in_releasing_threshold: threshold.unwrap_or(DEFAULT_STUCK_IN_RELEASING),
        })
    }
}

impl NodePool {
    /// Whether an object with these labels belongs to it.
    pub(crate) fn contains(&self, labels: &Labels) -> bool {
        if self.label_key.is_empty() {
            return true;
        }
        match labels.get(&self.label_key) {
            None => self.label_value.is_empty(),
            Some(value) => !self.label_value.is_empty() && value == self.label_value,
        }
    }

    /// The name of the pool that an object with these labels belongs to.
    pub(crate) fn name_of<'l>(&self, labels: &'l Labels) -> &'l str {
        labels.get(&self.label_key).filter(|value| !value.is_empty()).unwrap_or(DEFAULT_POOL)
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> &str {
        if self.label_value.is_empty() { DEFAULT_POOL } else { &self.label_value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_off() {
        let params = SchedulerParams::parse("{}").unwrap();
        assert!(!params.use_scheduling_signatures && !params.full_hierarchy_fairness);
        assert_eq!(params.stuck_in_releasing_threshold, DEFAULT_STUCK_IN_RELEASING);
    }

    #[test]
    fn a_pool_without_a_value_has_what_has_no_label() {
        let text = r#"{"partitionParams":{"nodepoollabelkey":"pool"}}"#;
        let pool = SchedulerParams::parse(text).unwrap().node_pool;
        let labels = |json: &str| serde_json::from_str::<Labels>(json).unwrap();
        assert!(pool.contains(&labels("{}")));
        assert!(!pool.contains(&labels(r#"{"pool":"blue"}"#)));
        assert_eq!(pool.name_of(&labels(r#"{"pool":"blue"}"#)), "blue");
    }

    #[test]
    fn unsupported_and_malformed_parameters_are_named() {
        for (text, expected) in [
            (r#"{"scheduleCSIStorage":true}"#, "schedulerParams.scheduleCSIStorage"),
            (r#"{"schedulerName":7}"#, "schedulerParams.schedulerName: invalid type"),
        ] {
            let error = SchedulerParams::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
