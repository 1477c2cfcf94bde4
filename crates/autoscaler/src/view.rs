//! What an autoscaler makes of one node or one pod, for those who ask after a loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::time::after;
use model::{Moment, NamespacedName};

use super::clock::Clock;
use super::cloud::{Cloud, GroupId};
use super::context::SharedState;
use super::decision::BlockingReason;
use super::readiness::Readiness;
use super::{Autoscaler, pending};

/// What is known of a node, whether or not the last loop looked at it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    /// The group it belongs to.
    pub group: Option<Arc<str>>,
    /// Whether it is ready.
    pub ready: bool,
    /// How much of it is used; `None` if it does not say how much it has.
    pub used: Option<Used>,
    /// With more than this it is needed.
    pub threshold: f64,
    /// How long it must be unneeded before it goes; longer or shorter if it is not ready.
    pub wait: Duration,
    /// The pods that would have to move, or the one that stands in the way and why.
    pub pods: Result<Vec<NamespacedName>, (NamespacedName, BlockingReason)>,
    /// Its removal was tried in vain, and is not tried again before.
    pub not_again_before: Option<Moment>,
    /// Whether it is on its way out.
    pub going: bool,
    /// Nodes stay for now, whatever is found of them.
    pub cooldown: Option<Cooldown>,
}

/// How much of a node is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// Of its processors, as a share; nothing for nodes with GPUs.
    pub cpu: f64,
    /// Of its memory, likewise.
    pub memory: f64,
    /// Of its GPUs.
    pub gpu: f64,
    /// The resource that counts.
    pub resource: &'static str,
    /// How much of it is used.
    pub highest: f64,
}

/// A time in which no node goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooldown {
    /// What happened.
    pub after: CooldownAfter,
    /// When; `None` if that is only assumed, an hour before the autoscaler began.
    pub since: Option<Moment>,
    /// Until when; nodes go again then.
    pub until: Moment,
}

/// After what no node goes for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CooldownAfter {
    /// Something grew.
    ScaleUp,
    /// A node went.
    ScaleDown,
    /// A node did not go.
    FailedScaleDown,
}

/// Where a pod stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodView {
    /// It is on a node, or promised one.
    Placed,
    /// It is being deleted.
    Deleted,
    /// No scheduler has said yet that no node takes it.
    NotRefused,
    /// Its priority is so low that nothing is done for it.
    Expendable,
    /// There is room for it.
    FindsRoom {
        /// On this node.
        node: Arc<str>,
        /// The node is still to come.
        upcoming: bool,
    },
    /// It belongs to a DaemonSet, which new nodes do not help.
    OfDaemonSet,
    /// It has not waited for long enough.
    Young {
        /// When it has.
        until: Moment,
    },
    /// New nodes are looked for.
    Waits,
}

impl Autoscaler {
    /// What is known of a node; `None` if there is none of that name.
    pub fn view_node(&mut self, now: Moment, name: &str, cloud: &dyn Cloud) -> Option<NodeView> {
        let clock = Clock::at(now);
        let SharedState { settings, cluster, .. } = &mut self.state;
        let id = cluster.nodes().find(|id| *cluster.snapshot.node(*id).name == *name)?;
        let group = cluster.group_of(id, cloud);
        let node = cluster.snapshot.node(id).clone();
        let options = group.and_then(|group| cloud.groups()[group.index()].options.as_ref());
        let options = settings.of_group(options);
        let ready = Readiness::of(&node, settings, cloud.gpu_label()).ready;
        let (used, has_gpu) = self.down.used(
            settings,
            cluster,
            id,
            options.ignore_daemonsets_utilization,
            cloud.gpu_label(),
            &clock,
        );
        Some(NodeView {
            group: group.map(|group| cloud.groups()[group.index()].name.clone()),
            ready,
            used,
            threshold: match has_gpu {
                true => options.scale_down_gpu_utilization_threshold,
                false => options.scale_down_utilization_threshold,
            },
            wait: if ready { options.scale_down_unneeded_time } else { options.scale_down_unready_time },
            pods: self.down.leaving(settings, cluster, id, &clock),
            not_again_before: self.down.not_again_before(name, &clock),
            going: self.down.status().contains(name),
            cooldown: self.cooldown(group, &clock),
        })
    }

    /// Where a pod stands after the last loop; `None` if it is not there, or none of the autoscaler's business.
    pub fn view_pod(&self, now: Moment, name: &NamespacedName) -> Option<PodView> {
        let SharedState { settings, cluster, .. } = &self.state;
        let id = cluster.find_pod(name)?;
        let pod = cluster.snapshot.pod(id);
        let bypassed = settings.bypassed_scheduler_names.contains(&pod.scheduler_name);
        let verdict = pod.scheduled.as_ref().map(|scheduled| (&*scheduled.status, &*scheduled.reason));
        let is_refused = match verdict {
            Some(("False", "Unschedulable")) => true,
            None | Some(("False", "")) => bypassed,
            Some(_) => false,
        };
        Some(if cluster.snapshot.trial.node_of(id).is_some() || pod.node.is_some() {
            PodView::Placed
        } else if pod.deleted.is_some() {
            PodView::Deleted
        } else if !is_refused {
            PodView::NotRefused
        } else if cluster.is_expendable(pod) {
            PodView::Expendable
        } else if let Some(node) = self.packing.last_place(pod) {
            PodView::FindsRoom { node: node.clone(), upcoming: cluster.snapshot.find(node).is_none() }
        } else if pod.is_of_daemon_set() {
            PodView::OfDaemonSet
        } else if let Some(until) = pending::young_until(pod, &Clock::at(now), settings) {
            PodView::Young { until }
        } else {
            PodView::Waits
        })
    }

    /// The time in which no node of a group goes, if now is such a time: the one that ends last.
    fn cooldown(&self, group: Option<GroupId>, clock: &Clock) -> Option<Cooldown> {
        let settings = &self.state.settings;
        let (up, down, failed) = match (settings.scale_down_delay_type_local, group) {
            (false, _) => {
                let failed = self.started.plus_nanos(-super::LONG_AGO_NANOS);
                (Some(self.last_scale_up), Some(self.last_deletion), Some(failed))
            }
            (true, None) => (None, None, None),
            (true, Some(group)) => {
                let registry = &self.state.registry;
                let last = |moments: &BTreeMap<GroupId, Moment>| moments.get(&group).copied();
                (last(&registry.scale_ups), last(&registry.scale_downs), last(&registry.failed_scale_downs))
            }
        };
        let times = [
            (CooldownAfter::ScaleUp, up, settings.scale_down_delay_after_add),
            (CooldownAfter::ScaleDown, down, settings.scale_down_delay_after_delete),
            (CooldownAfter::FailedScaleDown, failed, settings.scale_down_delay_after_failure),
        ];
        let times = times.into_iter().filter_map(|(what, since, delay)| {
            let until = after(since?, delay);
            Some(Cooldown { after: what, since: since.filter(|since| *since >= self.started), until })
        });
        times.filter(|time| !clock.has_come(time.until)).max_by_key(|time| time.until)
    }
}
