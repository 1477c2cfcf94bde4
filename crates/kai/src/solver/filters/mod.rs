//! Checks of accumulated victims that are cheaper than a simulation.

mod domain_gpus;
mod greedy_match;
mod idle_gpus;
mod node_affinity;

use super::scenario::Scenario;
use crate::cluster::node_set::NodeSet;
use crate::session::Session;
use domain_gpus::DomainGpus;
use idle_gpus::IdleGpus;
use node_affinity::NodeAffinityFilter;

/// The checks of one accumulation. They keep what they learnt of its victims.
#[derive(Debug, Default)]
pub(super) struct ScenarioFilters {
    node_affinity: Option<NodeAffinityFilter>,
    domain_gpus: Option<DomainGpus>,
    idle_gpus: Option<IdleGpus>,
}

impl ScenarioFilters {
    pub(super) fn new(session: &Session, scenario: Option<&Scenario>, feasible: &NodeSet) -> ScenarioFilters {
        let Some(scenario) = scenario else { return ScenarioFilters::default() };
        ScenarioFilters {
            node_affinity: NodeAffinityFilter::new(session, scenario, feasible),
            domain_gpus: DomainGpus::new(session, scenario),
            idle_gpus: Some(IdleGpus::new(session, scenario)),
        }
    }

    /// Whether the victims may be enough.
    pub(super) fn is_valid(&mut self, session: &Session, scenario: &Scenario) -> bool {
        self.node_affinity.as_mut().is_none_or(|filter| filter.is_valid(session, scenario))
            && self.domain_gpus.as_mut().is_none_or(|filter| filter.is_valid(session, scenario))
            && self.idle_gpus.as_mut().is_none_or(|filter| filter.is_valid(session, scenario))
    }
}
