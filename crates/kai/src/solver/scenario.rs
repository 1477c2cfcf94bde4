//! A scenario: pods that are to be evicted for pods that wait.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cluster::ids::{JobId, PodId, PodInfoId};
use crate::cluster::pod_info::AssignedNode;
use crate::session::Session;

/// Pods that are to be evicted for pods that wait.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The job, a partial copy.
    pub preemptor: JobId,
    /// The pods of the job that wait.
    pub pending: Vec<PodInfoId>,
    /// The victims that were found for fewer pods of the job.
    pub recorded: Vec<Rc<VictimGroup>>,
    /// Their pods.
    pub recorded_infos: Vec<PodInfoId>,
    /// Further victims.
    pub potential: Vec<PodInfoId>,
    /// The groups of all victims, by job.
    groups: BTreeMap<JobId, Vec<Rc<VictimGroup>>>,
    /// All victims, by job.
    victims: BTreeMap<JobId, Vec<PodInfoId>>,
    /// The jobs of further victims, by node, in the order of addition.
    jobs_by_node: BTreeMap<AssignedNode, Vec<JobId>>,
}

/// Pods of a job that are evicted together: copies of their states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VictimGroup {
    pub infos: Vec<PodInfoId>,
}

/// What makes scenarios equal: the job, and the pods of each kind, sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fingerprint(JobId, [Vec<PodId>; 3]);

impl Scenario {
    /// A scenario with the victims that were found before.
    pub(super) fn new(
        session: &mut Session,
        preemptor: JobId,
        pending: Vec<PodInfoId>,
        recorded: Vec<Rc<VictimGroup>>,
    ) -> Scenario {
        let recorded_infos = recorded.iter().flat_map(|group| group.infos.iter().copied()).collect();
        let mut scenario = Scenario {
            preemptor,
            pending,
            recorded_infos,
            potential: Vec::new(),
            groups: BTreeMap::new(),
            victims: BTreeMap::new(),
            jobs_by_node: BTreeMap::new(),
            recorded,
        };
        for group in scenario.recorded.clone() {
            scenario.add_group(session, &group.infos);
        }
        scenario
    }

    /// Adds victims of one job.
    pub(super) fn add_potential(&mut self, session: &mut Session, infos: &[PodInfoId]) {
        if infos.is_empty() {
            return;
        }
        self.potential.extend_from_slice(infos);
        self.add_group(session, infos);
        for info in infos {
            let job = job_of(session, *info);
            let jobs = self.jobs_by_node.entry(session.cluster.info(*info).node).or_default();
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
    }

    /// The group of a victim: the first one of its job that has it.
    pub(super) fn group_of(&self, session: &Session, info: PodInfoId) -> Option<&Rc<VictimGroup>> {
        let pod = session.cluster.info(info).pod;
        let has_pod = |group: &&Rc<VictimGroup>| {
            group.infos.iter().any(|other| session.cluster.info(*other).pod == pod)
        };
        self.groups.get(&job_of(session, info))?.iter().find(has_pod)
    }

    /// The groups of all jobs that have further victims on a node, wherever their pods are.
    pub(super) fn groups_of_node(&self, node: AssignedNode) -> Vec<PodInfoId> {
        let mut jobs = self.jobs_by_node.get(&node).cloned().unwrap_or_default();
        jobs.sort_unstable();
        let groups = jobs.iter().flat_map(|job| &self.groups[job]);
        groups.flat_map(|group| group.infos.iter().copied()).collect()
    }

    /// All victims by job, in their present states.
    pub(crate) fn victims(&self, session: &Session) -> BTreeMap<JobId, Vec<PodInfoId>> {
        let cluster = &session.cluster;
        let present = |(job, infos): (&JobId, &Vec<PodInfoId>)| {
            let of_job = cluster.job(*job);
            let present = infos
                .iter()
                .map(|info| of_job.info_of(cluster.info(*info).pod, &cluster.pods).unwrap_or(*info));
            (*job, present.collect())
        };
        self.victims.iter().map(present).collect()
    }

    /// The job of the last victim.
    pub(super) fn latest_job(&self, session: &Session) -> Option<JobId> {
        self.potential.last().map(|info| job_of(session, *info))
    }

    pub(super) fn fingerprint(&self, session: &Session) -> Fingerprint {
        let sorted = |infos: &[PodInfoId]| {
            let mut pods: Vec<PodId> = infos.iter().map(|info| session.cluster.info(*info).pod).collect();
            pods.sort_unstable();
            pods
        };
        let job = session.cluster.job(self.preemptor).id;
        Fingerprint(job, [sorted(&self.pending), sorted(&self.recorded_infos), sorted(&self.potential)])
    }

    fn add_group(&mut self, session: &mut Session, infos: &[PodInfoId]) {
        let Some(first) = infos.first() else { return };
        let job = job_of(session, *first);
        // A pod that is among the victims twice is in the group once.
        let mut copies: BTreeMap<PodId, PodInfoId> = BTreeMap::new();
        for info in infos {
            copies.insert(session.cluster.info(*info).pod, session.cluster.infos.copy(*info));
        }
        let group = VictimGroup { infos: copies.into_values().collect() };
        self.groups.entry(job).or_default().push(Rc::new(group));
        self.victims.entry(job).or_default().extend_from_slice(infos);
    }
}

/// The job of a victim.
fn job_of(session: &Session, info: PodInfoId) -> JobId {
    session.cluster.pod_of(info).job.expect("a victim belongs to a job")
}
