//! The start of a cycle.

use model::Moment;

use super::Session;
use super::order::PodOrderKey;
use crate::cluster::load;
use crate::decisions::SearchCounts;
use crate::initial_state::InitialState;
use crate::plugins::arguments::Arguments;
use crate::plugins::min_runtime::MinRuntime;
use crate::plugins::node_placement::NodePlacement;
use crate::plugins::pod_affinity::PodAffinity;
use crate::plugins::predicates::Predicates;
use crate::plugins::proportion::Proportion;
use crate::plugins::registry::Plugin;
use crate::plugins::topology::TopologyDomains;
use crate::snapshot::Snapshot;
use crate::{Error, Result};

impl Session {
    /// Starts a cycle on a snapshot at a moment. No decision is taken yet.
    pub fn open(snapshot: &Snapshot, now: Moment) -> Result<Session> {
        let settings = snapshot.settings.clone();
        let cluster = load(snapshot, now)?;
        let mut session = Session {
            pod_order: cluster.pods.iter().map(PodOrderKey::of).collect(),
            cluster,
            plugins: Vec::new(),
            job_order_plugins: Vec::new(),
            node_order_plugins: Vec::new(),
            proportion: None,
            predicates: None,
            pod_affinity: None,
            node_placement: None,
            min_runtime: None,
            topology: None,
            decisions: Vec::new(),
            search_counts: SearchCounts::default(),
            initial: InitialState::default(),
            warnings: Vec::new(),
            settings,
        };
        for option in snapshot.settings.config.plugins.iter() {
            let plugin = Plugin::of(&option.name).ok_or_else(|| {
                let names = Plugin::ALL.map(Plugin::name).join(", ");
                let why = format!("unknown plugin {:?}: expected some of {names}", option.name);
                Error::setting("config.tiers", why)
            })?;
            if session.plugins.contains(&plugin) {
                let why = format!("plugin {:?} is listed twice", option.name);
                return Err(Error::setting("config.tiers", why));
            }
            session.plugins.push(plugin);
            if plugin.orders_jobs() {
                session.job_order_plugins.push(plugin);
            }
            if plugin.scores_nodes() {
                session.node_order_plugins.push(plugin);
            }
            let Session { cluster, settings, warnings, .. } = &mut session;
            let mut arguments = Arguments { plugin, values: &option.arguments, warnings };
            match plugin {
                Plugin::Predicates => {
                    let node_pool = settings.params.node_pool.name();
                    session.predicates = Some(Predicates::new(cluster, node_pool, &snapshot.storage));
                }
                Plugin::Proportion => {
                    session.proportion = Some(Proportion::new(cluster, &settings.params, &mut arguments));
                }
                Plugin::NodePlacement => session.node_placement = Some(NodePlacement::new(&arguments)),
                Plugin::PodAffinity => session.pod_affinity = Some(PodAffinity::default()),
                Plugin::MinRuntime => session.min_runtime = Some(MinRuntime::new(&mut arguments)),
                Plugin::Topology => session.topology = Some(TopologyDomains::new(cluster)),
                Plugin::Numa => check_numa(snapshot)?,
                Plugin::Priority
                | Plugin::Elastic
                | Plugin::Kubeflow
                | Plugin::Ray
                | Plugin::NodeAvailability
                | Plugin::GpuSharingOrder
                | Plugin::GpuPack
                | Plugin::GpuSpread
                | Plugin::ResourceType
                | Plugin::SubGroupOrder
                | Plugin::TaskOrder
                | Plugin::NominatedNode
                | Plugin::DynamicResources
                | Plugin::Snapshot
                | Plugin::ReflectJobOrder
                | Plugin::NodeLocalGreedy
                | Plugin::MultiNodeGang => {}
            }
        }
        let shares = session.proportion.as_ref().map(|proportion| proportion.shares.clone());
        session.initial = InitialState::of(&session.cluster, shares.unwrap_or_default());
        Ok(session)
    }

    /// What is noteworthy about the settings, such as arguments that were replaced by defaults.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Refuses nodes whose NUMA topology the plugin would consider.
fn check_numa(snapshot: &Snapshot) -> Result<()> {
    match snapshot.numa_nodes.first() {
        None => Ok(()),
        Some(node) => Err(Error::Unsupported {
            kind: "NodeResourceTopology",
            name: node.to_string(),
            what: "the plugin numa",
        }),
    }
}
