//! The order in which jobs are tried: a tree of queues, with a heap of children, or of jobs, in each.
//!
//! A heap is repaired only when its top is looked at, and only as long as the top is marked as changed. Queues are
//! compared by the jobs at the top of the heaps below them, which may not be the best at that moment. That is how the
//! original does it, and the order of jobs depends on it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::Session;
use super::heap;
use super::order::QueueCandidate;
use super::victim_sums::VictimSums;
use crate::cluster::ids::{JobId, QueueId};
use crate::cluster::status::PodStatus;

/// Which jobs are ordered, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobOrderOptions {
    /// Leaves out jobs without enough pods.
    pub skips_unready: bool,
    /// Leaves out jobs without pending pods.
    pub skips_without_pending: bool,
    /// Leaves out jobs that cannot be preempted.
    pub skips_non_preemptible: bool,
    /// Leaves out jobs without pods on nodes.
    pub skips_inactive: bool,
    /// Leaves out jobs that may not cause evictions yet.
    pub skips_delayed: bool,
    /// Orders jobs as victims: the last comes first.
    pub is_for_victims: bool,
    /// The most jobs of a queue.
    pub max_depth: Option<usize>,
}

/// Jobs in the order in which they are tried.
#[derive(Clone, Debug)]
pub(crate) struct JobOrder {
    options: JobOrderOptions,
    roots: Vec<usize>,
    nodes: Vec<QueueNode>,
    node_of_queue: BTreeMap<QueueId, usize>,
    popped: BTreeMap<QueueId, Vec<JobId>>,
    sums: RefCell<VictimSums>,
}

/// A queue in the tree.
#[derive(Clone, Debug)]
struct QueueNode {
    queue: QueueId,
    parent: Option<usize>,
    children: Children,
    /// Whether something below it changed since it was put in its place.
    needs_reorder: bool,
}

/// A heap.
#[derive(Clone, Debug)]
enum Children {
    Queues(Vec<usize>),
    Jobs(Vec<JobId>),
}

impl JobOrder {
    /// No jobs.
    pub(crate) fn new(options: JobOrderOptions) -> JobOrder {
        JobOrder {
            options,
            roots: Vec::new(),
            nodes: Vec::new(),
            node_of_queue: BTreeMap::new(),
            popped: BTreeMap::new(),
            sums: RefCell::default(),
        }
    }

    /// Adds those of these jobs that are not left out.
    pub(crate) fn add_jobs(&mut self, session: &mut Session, jobs: impl IntoIterator<Item = JobId>) {
        for job in jobs {
            if self.is_included(session, job) {
                self.push(session, job);
            }
        }
    }

    /// Takes the next job.
    pub(crate) fn pop(&mut self, session: &mut Session) -> Option<JobId> {
        let leaf = self.descend(session)?;
        let mut jobs = self.take_jobs(leaf);
        let is_for_victims = self.options.is_for_victims;
        let job = heap::pop(&mut jobs, |left, right| is_before(session, is_for_victims, *left, *right));
        self.nodes[leaf].children = Children::Jobs(jobs);
        let job = job?;
        if is_for_victims {
            self.popped.entry(self.nodes[leaf].queue).or_default().push(job);
        }
        self.clean_up(session, leaf);
        Some(job)
    }

    /// Adds a job.
    pub(crate) fn push(&mut self, session: &mut Session, job: JobId) {
        let Some(queue) = session.queue_of(job) else { return };
        if !session.cluster.queue(queue).is_leaf() {
            return;
        }
        let known = self.node_of_queue.get(&queue).copied();
        let leaf = known.unwrap_or_else(|| self.add_node(queue, Children::Jobs(Vec::new())));
        let mut jobs = self.take_jobs(leaf);
        let is_for_victims = self.options.is_for_victims;
        let mut less = |left: &JobId, right: &JobId| is_before(session, is_for_victims, *left, *right);
        heap::push(&mut jobs, job, &mut less);
        if let Some(depth) = self.options.max_depth.filter(|depth| jobs.len() > *depth) {
            // Not necessarily the last job.
            heap::remove(&mut jobs, depth, &mut less);
        }
        self.nodes[leaf].children = Children::Jobs(jobs);
        if known.is_none() {
            self.link(session, leaf);
        }
        self.mark_path(leaf);
    }

    fn is_included(&self, session: &mut Session, id: JobId) -> bool {
        let options = self.options;
        let now = session.cluster.now;
        let cluster = &session.cluster;
        let job = cluster.job(id);
        if (options.skips_unready && !job.is_ready())
            || (options.skips_without_pending && !job.has_status(PodStatus::Pending))
            || (options.skips_non_preemptible && !job.group.is_preemptible)
        {
            return false;
        }
        let is_active = |info| cluster.info(info).status.is_active_allocated();
        if options.skips_inactive && !job.infos().any(is_active) {
            return false;
        }
        if !job.group.queue.is_some_and(|queue| cluster.queue(queue).is_leaf()) {
            return false;
        }
        let delay_end = job.preemption_delay_end().filter(|end| options.skips_delayed && now < *end);
        if let Some(end) = delay_end {
            session.cluster.job_mut(id).report_preemption_delay(end);
        }
        delay_end.is_none()
    }

    /// The leaf with the next job.
    fn descend(&mut self, session: &mut Session) -> Option<usize> {
        let mut above = None;
        loop {
            let node = self.next_node(session, above)?;
            if matches!(self.nodes[node].children, Children::Jobs(_)) {
                return Some(node);
            }
            above = Some(node);
        }
    }

    /// The top of a heap of queues, once it is not marked any more.
    fn next_node(&mut self, session: &mut Session, above: Option<usize>) -> Option<usize> {
        loop {
            let top = *self.queues(above).first()?;
            if !self.nodes[top].needs_reorder {
                return Some(top).filter(|top| !self.nodes[*top].children.is_empty());
            }
            let mut queues = std::mem::take(self.queues_mut(above));
            heap::fix(&mut queues, 0, |left, right| self.is_node_before(session, *left, *right));
            *self.queues_mut(above) = queues;
            self.nodes[top].needs_reorder = false;
        }
    }

    /// Removes queues without jobs, each as the top of the heap that it is in.
    fn clean_up(&mut self, session: &mut Session, leaf: usize) {
        let mut node = leaf;
        while self.nodes[node].children.is_empty() {
            let parent = self.nodes[node].parent;
            let mut queues = std::mem::take(self.queues_mut(parent));
            heap::pop(&mut queues, |left, right| self.is_node_before(session, *left, *right));
            *self.queues_mut(parent) = queues;
            self.node_of_queue.remove(&self.nodes[node].queue);
            match parent {
                Some(parent) => node = parent,
                None => return,
            }
        }
        self.mark_path(node);
    }

    fn add_node(&mut self, queue: QueueId, children: Children) -> usize {
        let node = self.nodes.len();
        self.nodes.push(QueueNode { queue, parent: None, children, needs_reorder: false });
        self.node_of_queue.insert(queue, node);
        node
    }

    /// Links a new node to its parent, and that to its own if it is new too.
    fn link(&mut self, session: &mut Session, node: usize) {
        let mut child = node;
        while let Some(queue) = session.cluster.queue(self.nodes[child].queue).parent {
            let known = self.node_of_queue.get(&queue).copied();
            let parent = known.unwrap_or_else(|| self.add_node(queue, Children::Queues(Vec::new())));
            self.nodes[child].parent = Some(parent);
            self.push_node(session, Some(parent), child);
            if known.is_some() {
                return;
            }
            child = parent;
        }
        self.push_node(session, None, child);
    }

    fn push_node(&mut self, session: &mut Session, above: Option<usize>, node: usize) {
        let mut queues = std::mem::take(self.queues_mut(above));
        heap::push(&mut queues, node, |left, right| self.is_node_before(session, *left, *right));
        *self.queues_mut(above) = queues;
    }

    fn mark_path(&mut self, node: usize) {
        let mut next = Some(node);
        while let Some(node) = next {
            self.nodes[node].needs_reorder = true;
            next = self.nodes[node].parent;
        }
    }

    fn is_node_before(&self, session: &mut Session, left: usize, right: usize) -> bool {
        let is_reversed = self.options.is_for_victims;
        let Some(left) = self.candidate(session, left) else { return !is_reversed };
        let Some(right) = self.candidate(session, right) else { return is_reversed };
        session.is_queue_before(&left, &right) != is_reversed
    }

    /// A queue with the job at the top below it; `None` if there is none.
    fn candidate(&self, session: &Session, node: usize) -> Option<QueueCandidate> {
        let mut leaf = node;
        let job = loop {
            match &self.nodes[leaf].children {
                Children::Queues(queues) => leaf = *queues.first()?,
                Children::Jobs(jobs) => break *jobs.first()?,
            }
        };
        let queue = self.nodes[node].queue;
        if !self.options.is_for_victims {
            return Some(QueueCandidate { queue, job: Some(job), without_victims: None });
        }
        let leaf = self.nodes[leaf].queue;
        let popped = self.popped.get(&leaf).map_or(&[][..], Vec::as_slice);
        let without_victims = self.sums.borrow_mut().without_victims(session, queue, leaf, popped, job);
        Some(QueueCandidate { queue, job: None, without_victims })
    }

    /// The heap of queues of a node, or of the roots.
    fn queues(&self, above: Option<usize>) -> &[usize] {
        match above.map(|node| &self.nodes[node].children) {
            None => &self.roots,
            Some(Children::Queues(queues)) => queues,
            Some(Children::Jobs(_)) => &[],
        }
    }

    fn queues_mut(&mut self, above: Option<usize>) -> &mut Vec<usize> {
        match above {
            None => &mut self.roots,
            Some(node) => match &mut self.nodes[node].children {
                Children::Queues(queues) => queues,
                Children::Jobs(_) => unreachable!("queues are only linked to queues that have no jobs"),
            },
        }
    }

    fn take_jobs(&mut self, leaf: usize) -> Vec<JobId> {
        match &mut self.nodes[leaf].children {
            Children::Jobs(jobs) => std::mem::take(jobs),
            Children::Queues(_) => unreachable!("jobs are only in queues without children"),
        }
    }
}

impl Children {
    fn is_empty(&self) -> bool {
        match self {
            Children::Queues(queues) => queues.is_empty(),
            Children::Jobs(jobs) => jobs.is_empty(),
        }
    }
}

fn is_before(session: &Session, is_for_victims: bool, left: JobId, right: JobId) -> bool {
    session.is_job_before(left, right) != is_for_victims
}
