//! The scheduler configuration: actions, plugins, queue depths and search budgets.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::go::duration;
use kubernetes::read::parse_text;
use serde::Deserialize;

use super::action::Action;
use crate::{Error, Result};

/// The scheduler configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerConfiguration {
    /// The actions, in order.
    pub actions: Vec<Action>,
    /// The plugins of all tiers, in order.
    pub plugins: Vec<PluginOption>,
    /// The most jobs of a queue that an action tries; an action without an entry tries all.
    pub queue_depth_per_action: BTreeMap<Arc<str>, usize>,
    /// The limits of searches for victims.
    pub search_budgets: SearchBudgets,
}

/// A plugin with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginOption {
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub arguments: BTreeMap<String, String>,
}

/// The limits of searches for victims, in nanoseconds; zero for none. They are counted in scenarios and not timed, so
/// that results do not depend on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchBudgets {
    /// For an action, by name, with `default` for the others.
    pub action: BTreeMap<String, i64>,
    /// For a job.
    pub job: i64,
    /// What a job gets even if its action has used up its own.
    pub min_job: i64,
    /// For a generator, by name, with `default` for the others.
    pub generator: BTreeMap<String, i64>,
}

/// The key of the limits for all that have none of their own.
pub(crate) const DEFAULT_BUDGET: &str = "default";

const MINUTE: i64 = 60_000_000_000;
const GENERATOR_KEYS: [&str; 3] = [DEFAULT_BUDGET, "NodeLocalGreedy", "MultiNodeGang"];
const ACTION_KEYS: [&str; 4] = [DEFAULT_BUDGET, "consolidation", "reclaim", "preempt"];

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConfigJson {
    actions: Option<String>,
    tiers: Option<Vec<TierJson>>,
    queue_depth_per_action: Option<BTreeMap<String, i64>>,
    scenario_search_budgets: Option<BudgetsJson>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TierJson {
    plugins: Option<Vec<PluginJson>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PluginJson {
    name: String,
    arguments: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BudgetsJson {
    max_action_search_duration: Option<BTreeMap<String, String>>,
    max_job_search_duration: Option<String>,
    min_job_search_duration: Option<String>,
    max_generator_search_duration: Option<BTreeMap<String, String>>,
}

// === impl SchedulerConfiguration ===

impl SchedulerConfiguration {
    /// Reads the JSON text of a configuration. Unknown actions are errors, and so are search budgets that are malformed
    /// or for something unknown; unknown plugins are found when a cycle starts.
    pub fn parse(text: &str) -> Result<SchedulerConfiguration> {
        let json: ConfigJson = parse_text("config", text).map_err(|why| Error::setting("config", why))?;
        let plugins = json.tiers.into_iter().flatten().flat_map(|tier| tier.plugins.unwrap_or_default());
        let plugins = plugins.map(|plugin| PluginOption {
            name: plugin.name,
            arguments: plugin.arguments.unwrap_or_default(),
        });
        Ok(SchedulerConfiguration {
            actions: parse_actions(json.actions.as_deref().unwrap_or_default())?,
            plugins: plugins.collect(),
            queue_depth_per_action: parse_depths(json.queue_depth_per_action.unwrap_or_default())?,
            search_budgets: SearchBudgets::parse(json.scenario_search_budgets.unwrap_or_default())?,
        })
    }
}

// === impl SearchBudgets ===

impl SearchBudgets {
    fn parse(json: BudgetsJson) -> Result<SearchBudgets> {
        let single = |name: &str, text: Option<String>, default: i64| match text {
            None => Ok(default),
            Some(text) => parse_budget(name, &text),
        };
        let (job_name, min_name) = ("maxJobSearchDuration", "minJobSearchDuration");
        let job = single(job_name, json.max_job_search_duration, 4 * MINUTE)?;
        let min_job = single(min_name, json.min_job_search_duration, 0)?;
        if job != 0 && min_job >= job {
            let why = format!("{min_name} must be less than {job_name}");
            return Err(Error::setting("config.scenarioSearchBudgets", why));
        }
        let action = parse_budgets(
            "maxActionSearchDuration",
            json.max_action_search_duration.unwrap_or_default(),
            &ACTION_KEYS,
        )?;
        let mut generator = parse_budgets(
            "maxGeneratorSearchDuration",
            json.max_generator_search_duration.unwrap_or_default(),
            &GENERATOR_KEYS,
        )?;
        if !generator.contains_key(DEFAULT_BUDGET) {
            generator.entry("NodeLocalGreedy".to_owned()).or_insert(MINUTE / 2);
            generator.insert(DEFAULT_BUDGET.to_owned(), 2 * MINUTE);
        }
        Ok(SearchBudgets { action, job, min_job, generator })
    }

    /// The limit of an action.
    pub(crate) fn of_action(&self, action: Action) -> i64 {
        let own = self.action.get(action.name()).or_else(|| self.action.get(DEFAULT_BUDGET));
        own.copied().unwrap_or(5 * MINUTE)
    }

    /// The limit of a generator.
    pub(crate) fn of_generator(&self, name: &str) -> i64 {
        let own = self.generator.get(name).or_else(|| self.generator.get(DEFAULT_BUDGET));
        own.copied().unwrap_or(2 * MINUTE)
    }
}

fn parse_actions(text: &str) -> Result<Vec<Action>> {
    let action = |name: &str| {
        let name = name.trim();
        Action::of(name).ok_or_else(|| {
            let names = Action::ALL.map(Action::name).join(", ");
            Error::setting("config.actions", format!("unknown action {name:?}: expected some of {names}"))
        })
    };
    text.split(',').map(action).collect()
}

fn parse_depths(json: BTreeMap<String, i64>) -> Result<BTreeMap<Arc<str>, usize>> {
    let mut depths = BTreeMap::new();
    for (action, depth) in json {
        // Minus one stands for all jobs.
        if depth == -1 {
            continue;
        }
        let depth = usize::try_from(depth).map_err(|_| {
            let why = format!("{depth} jobs: expected a number of jobs, or -1 for all");
            Error::setting(format!("config.queueDepthPerAction.{action}"), why)
        })?;
        depths.insert(Arc::from(action), depth);
    }
    Ok(depths)
}

fn parse_budgets(
    name: &str,
    json: BTreeMap<String, String>,
    known: &[&str],
) -> Result<BTreeMap<String, i64>> {
    let mut budgets = BTreeMap::new();
    for (key, text) in json {
        if !known.contains(&key.as_str()) {
            let why = format!("unknown key {key:?}: expected some of {}", known.join(", "));
            return Err(Error::setting(format!("config.scenarioSearchBudgets.{name}"), why));
        }
        let budget = parse_budget(&format!("{name}.{key}"), &text)?;
        budgets.insert(key, budget);
    }
    Ok(budgets)
}

fn parse_budget(name: &str, text: &str) -> Result<i64> {
    duration::parse(text).filter(|nanos| *nanos >= 0).ok_or_else(|| {
        let why = format!("invalid duration {text:?}: expected one such as 30s or 2m, not negative");
        Error::setting(format!("config.scenarioSearchBudgets.{name}"), why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_rejected(config: &str, expected: &str) {
        let error = SchedulerConfiguration::parse(config).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} should say {expected:?}");
    }

    #[test]
    fn actions_are_separated_by_commas() {
        let config = SchedulerConfiguration::parse(r#"{"actions":"allocate, preempt"}"#).unwrap();
        assert_eq!(config.actions, [Action::Allocate, Action::Preempt]);
        assert_eq!(config.search_budgets.of_generator("NodeLocalGreedy"), MINUTE / 2);
        assert_eq!(config.search_budgets.of_action(Action::Reclaim), 5 * MINUTE);
    }

    #[test]
    fn what_is_unknown_or_malformed_is_named() {
        assert_rejected("{}", "config.actions: unknown action \"\"");
        assert_rejected(r#"{"actions":"allocate,backfill"}"#, "unknown action \"backfill\"");
        assert_rejected(r#"{"actions":7}"#, "config.actions: invalid type");
        let depth = r#"{"actions":"allocate","queueDepthPerAction":{"allocate":-2}}"#;
        assert_rejected(depth, "queueDepthPerAction.allocate: -2 jobs");
        let budgets =
            |budgets: &str| format!(r#"{{"actions":"allocate","scenarioSearchBudgets":{{{budgets}}}}}"#);
        assert_rejected(
            &budgets(r#""maxGeneratorSearchDuration":{"Greedy":"1s"}"#),
            "unknown key \"Greedy\"",
        );
        assert_rejected(&budgets(r#""maxJobSearchDuration":"-1s""#), "invalid duration \"-1s\"");
        let both = r#""maxJobSearchDuration":"1s","minJobSearchDuration":"1s""#;
        assert_rejected(&budgets(both), "must be less than");
    }
}
