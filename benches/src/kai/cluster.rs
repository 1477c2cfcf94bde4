//! A generated GPU cluster: departments with teams, running jobs of all kinds, and jobs that wait for each action.

use model::Object;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use super::free_nodes::FreeNodes;
use super::objects::{self, GpuRequest, PodSpec, QueueQuota};
use crate::Result;

/// A cluster to generate.
pub(super) struct ClusterOptions {
    pub(super) nodes: usize,
    /// The part of all GPUs that running pods have.
    pub(super) fill: f64,
    /// Running pods per node, where the cluster is full.
    pub(super) pods_per_node: usize,
    pub(super) pending_jobs: usize,
    pub(super) pending: PendingJobs,
    pub(super) seed: u64,
}

/// The jobs that wait.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum PendingJobs {
    /// Some for each action, and some that no action can place.
    Mixed,
    /// A gang of 512 pods that finds too few victims, and few others.
    LargeGang,
    /// Jobs of teams that have next to nothing, while two departments have the cluster.
    ReclaimStorm,
}

/// A queue with jobs.
struct LeafQueue {
    name: String,
    namespace: String,
    department: usize,
}

/// A job to generate.
struct JobSpec {
    prefix: &'static str,
    queue: usize,
    class: &'static str,
    pods: usize,
    min_member: u32,
    gpu: GpuRequest,
    cpu_millis: i64,
    node_selector: Option<(&'static str, &'static str)>,
    requires_rack: bool,
    is_spread: bool,
}

struct ClusterGenerator<'a> {
    options: &'a ClusterOptions,
    rng: Pcg64,
    queues: Vec<LeafQueue>,
    /// What each department uses, relative to the others.
    weights: [f64; DEPARTMENTS],
    nodes: FreeNodes,
    jobs: usize,
    running_pods: usize,
    emit: &'a mut dyn FnMut(Object) -> Result<()>,
}

const DEPARTMENTS: usize = 8;
const TEAMS: usize = 6;
/// Departments whose teams have queues of their own below them.
const DEEP_DEPARTMENTS: usize = 4;
/// Of a hundred nodes.
const GPU_NODES: usize = 85;
const DAEMON_PODS: usize = 6;
const GPUS_OF_A_NODE: usize = 8;
/// Running jobs that may find no place before no more are generated.
const MAX_FAILURES: usize = 2000;

/// Generates the objects of a cluster.
pub(super) fn generate(options: &ClusterOptions, emit: &mut dyn FnMut(Object) -> Result<()>) -> Result<()> {
    let weights = match options.pending {
        PendingJobs::Mixed | PendingJobs::LargeGang => [2.2, 1.6, 1.2, 1.0, 0.8, 0.6, 0.4, 0.2],
        PendingJobs::ReclaimStorm => [4.0, 3.6, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05],
    };
    let gpu_nodes = options.nodes * GPU_NODES / 100;
    let mut generator = ClusterGenerator {
        options,
        rng: Pcg64::seed_from_u64(options.seed),
        queues: Vec::new(),
        weights,
        nodes: FreeNodes::new(options.nodes, gpu_nodes),
        jobs: 0,
        running_pods: 0,
        emit,
    };
    for class in objects::priority_classes() {
        generator.emit(&class)?;
    }
    generator.emit(&objects::topology())?;
    generator.add_queues((gpu_nodes * GPUS_OF_A_NODE) as f64)?;
    generator.add_nodes(gpu_nodes)?;
    generator.add_running_gpu_jobs((gpu_nodes * GPUS_OF_A_NODE) as f64 * options.fill)?;
    generator.add_running_cpu_jobs()?;
    generator.add_pending_jobs()
}

impl ClusterGenerator<'_> {
    fn emit(&mut self, value: &Value) -> Result<()> {
        (self.emit)(Object::parse(&value.to_string())?)
    }

    fn add_queues(&mut self, gpus: f64) -> Result<()> {
        let quota = |gpus: f64, cpu_millis: f64| QueueQuota { gpus, gpu_limit: -1.0, cpu_millis };
        for department in 0..DEPARTMENTS {
            let name = format!("dept-{department}");
            let of_department = (gpus * 0.9 / DEPARTMENTS as f64).floor();
            self.emit(&objects::queue(&name, "", &quota(of_department, -1.0)))?;
            for team in 0..TEAMS {
                let team_name = format!("{name}-team-{team}");
                let of_team = (of_department / TEAMS as f64).floor();
                let limit = if team == 0 { (of_team * 4.0).floor() } else { -1.0 };
                let team_quota = QueueQuota { gpus: of_team, gpu_limit: limit, cpu_millis: -1.0 };
                self.emit(&objects::queue(&team_name, &name, &team_quota))?;
                let leaves: Vec<String> = if department < DEEP_DEPARTMENTS {
                    ["dev", "prod"].iter().map(|stage| format!("{team_name}-{stage}")).collect()
                } else {
                    vec![team_name.clone()]
                };
                for leaf in leaves {
                    if leaf != team_name {
                        self.emit(&objects::queue(&leaf, &team_name, &quota((of_team / 2.0).floor(), -1.0)))?;
                    }
                    self.queues.push(LeafQueue {
                        namespace: format!("runai-{leaf}"),
                        name: leaf,
                        department,
                    });
                }
            }
        }
        Ok(())
    }

    fn add_nodes(&mut self, gpu_nodes: usize) -> Result<()> {
        for index in 0..self.options.nodes {
            let name = node_name(index);
            self.emit(&objects::node(&name, index, index < gpu_nodes))?;
            for daemon in 0..DAEMON_PODS {
                self.nodes.take(index, 100, 0.0);
                self.emit(&objects::daemon_pod(&format!("agent-{daemon}-{index:05}"), &name))?;
                self.running_pods += 1;
            }
        }
        Ok(())
    }

    fn add_running_gpu_jobs(&mut self, wanted: f64) -> Result<()> {
        let mut failures = 0;
        while self.nodes.used_gpus() < wanted && failures < MAX_FAILURES {
            let queue = self.weighted_queue();
            let kind = self.rng.random_range(0..100);
            let class = self.running_class();
            let job = match kind {
                0..8 => {
                    let pods = 1 << self.rng.random_range(1..5);
                    JobSpec::gpu("dist", queue, "train", pods, pods as u32, GpuRequest::Whole(8))
                }
                8..48 => {
                    let gpus = 1 << self.rng.random_range(0..3);
                    JobSpec::gpu("single", queue, class, 1, 1, GpuRequest::Whole(gpus))
                }
                48..70 => {
                    let portion = if self.rng.random_bool(0.5) { 0.5 } else { 0.25 };
                    JobSpec::gpu("notebook", queue, class, 1, 1, GpuRequest::Fraction(portion))
                }
                70..87 => {
                    let (min, pods) = (self.rng.random_range(1..4), self.rng.random_range(4..16));
                    JobSpec::gpu("elastic", queue, "train", pods, min, GpuRequest::Whole(1))
                }
                _ => {
                    let pods = 1 << self.rng.random_range(2..6);
                    JobSpec::gpu("gang", queue, "train", pods, pods as u32, GpuRequest::Whole(1))
                }
            };
            failures += usize::from(!self.add_running(&job)?);
        }
        Ok(())
    }

    fn add_running_cpu_jobs(&mut self) -> Result<()> {
        let pods =
            (self.options.nodes * self.options.pods_per_node) as f64 * (self.options.fill / 0.95).min(1.0);
        while (self.running_pods as f64) < pods {
            let queue = self.rng.random_range(0..self.queues.len());
            let class = self.running_class();
            let count = 1 << self.rng.random_range(0..6);
            let cpu_millis = 250 * self.rng.random_range(1..5);
            let job = JobSpec { cpu_millis, ..JobSpec::cpu("cpu", queue, class, count) };
            if !self.add_running(&job)? {
                return Err("the nodes have no room for the running pods".into());
            }
        }
        Ok(())
    }

    fn add_pending_jobs(&mut self) -> Result<()> {
        for index in 0..self.options.pending_jobs {
            let job = match self.options.pending {
                PendingJobs::LargeGang if index == 0 => {
                    let queue = self.queue_of_departments(0..1);
                    JobSpec::gpu(
                        "large-gang",
                        queue,
                        "interactive-preemptible",
                        512,
                        512,
                        GpuRequest::Whole(2),
                    )
                }
                PendingJobs::Mixed | PendingJobs::LargeGang => self.mixed_job(),
                PendingJobs::ReclaimStorm => self.reclaiming_job(),
            };
            self.add_job(&job, None)?;
        }
        Ok(())
    }

    /// A job that some action may place.
    fn mixed_job(&mut self) -> JobSpec {
        let any = self.rng.random_range(0..self.queues.len());
        let (over, under) = (self.queue_of_departments(0..2), self.queue_of_departments(5..DEPARTMENTS));
        match self.rng.random_range(0..100) {
            0..25 => JobSpec::cpu("p-cpu", any, "train", 1 << self.rng.random_range(0..4)),
            25..42 => JobSpec::gpu("p-single", any, "train", 1, 1, GpuRequest::Whole(1)),
            42..52 => {
                JobSpec::gpu("p-notebook", any, "interactive-preemptible", 1, 1, GpuRequest::Fraction(0.5))
            }
            52..65 => {
                let pods = 1 << self.rng.random_range(0..4);
                JobSpec::gpu("p-dist", under, "train", pods, pods as u32, GpuRequest::Whole(8))
            }
            65..75 => JobSpec::gpu("p-elastic", any, "train", 8, 2, GpuRequest::Whole(1)),
            75..86 => {
                let gpus = 1 << self.rng.random_range(0..4);
                JobSpec::gpu("p-urgent", over, "interactive-preemptible", 1, 1, GpuRequest::Whole(gpus))
            }
            86..91 => JobSpec::gpu("p-node", any, "train", 1, 1, GpuRequest::Whole(8)),
            91..94 => JobSpec {
                node_selector: Some(("node.example/pool", "none")),
                ..JobSpec::gpu("p-selector", any, "train", 1, 1, GpuRequest::Whole(1))
            },
            94..97 => JobSpec {
                requires_rack: true,
                ..JobSpec::gpu("p-rack", under, "train", 8, 8, GpuRequest::Whole(8))
            },
            _ => JobSpec {
                is_spread: true,
                ..JobSpec::gpu("p-service", any, "inference", 3, 1, GpuRequest::Whole(1))
            },
        }
    }

    /// A job of a team that has next to nothing.
    fn reclaiming_job(&mut self) -> JobSpec {
        let queue = self.queue_of_departments(2..DEPARTMENTS);
        match self.rng.random_range(0..100) {
            0..50 => {
                let gpus = 1 << self.rng.random_range(0..4);
                JobSpec::gpu("p-single", queue, "train", 1, 1, GpuRequest::Whole(gpus))
            }
            50..80 => {
                let pods = 1 << self.rng.random_range(1..4);
                JobSpec::gpu("p-dist", queue, "train", pods, pods as u32, GpuRequest::Whole(8))
            }
            80..90 => JobSpec::gpu("p-elastic", queue, "train", 8, 2, GpuRequest::Whole(1)),
            _ => JobSpec::gpu("p-notebook", queue, "train", 1, 1, GpuRequest::Fraction(0.5)),
        }
    }

    /// Adds a running job. Returns whether all its pods found a node; if not, nothing is added.
    fn add_running(&mut self, job: &JobSpec) -> Result<bool> {
        let mut nodes: Vec<(usize, Option<String>)> = Vec::with_capacity(job.pods);
        for _ in 0..job.pods {
            match self.nodes.place(job.cpu_millis, job.gpu, &mut self.rng) {
                Some(placed) => nodes.push(placed),
                None => {
                    for (node, gpu_group) in nodes {
                        self.nodes.put_back(node, job.cpu_millis, job.gpu, gpu_group.as_deref());
                    }
                    return Ok(false);
                }
            }
        }
        for (node, gpu_group) in &nodes {
            if let Some(group) = gpu_group
                && self.nodes.take_new_group(group)
            {
                let pod =
                    objects::reservation_pod(&format!("gpu-reservation-{group}"), &node_name(*node), group);
                self.emit(&pod)?;
                self.running_pods += 1;
            }
        }
        self.running_pods += nodes.len();
        self.add_job(job, Some(nodes))?;
        Ok(true)
    }

    fn add_job(&mut self, job: &JobSpec, nodes: Option<Vec<(usize, Option<String>)>>) -> Result<()> {
        let (queue, namespace) = {
            let LeafQueue { name, namespace, .. } = &self.queues[job.queue];
            (name.clone(), namespace.clone())
        };
        let name = format!("{}-{:05}", job.prefix, self.jobs);
        self.jobs += 1;
        let mut group =
            objects::pod_group(&namespace, &name, &queue, job.class, job.min_member, nodes.is_some());
        if job.requires_rack {
            group["spec"]["topologyConstraint"] = json!({"topology": "datacenter",
                "requiredTopologyLevel": "topology.example/rack", "preferredTopologyLevel": "topology.example/rack"});
        }
        self.emit(&group)?;
        for index in 0..job.pods {
            let placed = nodes.as_ref().map(|nodes| &nodes[index]);
            let node = placed.map(|(node, _)| node_name(*node));
            let pod = objects::pod(&PodSpec {
                namespace: &namespace,
                name: format!("{name}-{index}"),
                group: &name,
                queue: &queue,
                cpu_millis: job.cpu_millis,
                memory_mib: job.cpu_millis * 4,
                gpu: job.gpu,
                gpu_group: placed.and_then(|(_, group)| group.clone()),
                node: node.as_deref(),
                node_selector: job.node_selector,
                is_spread: job.is_spread,
            });
            self.emit(&pod)?;
        }
        Ok(())
    }

    fn running_class(&mut self) -> &'static str {
        match self.rng.random_range(0..100) {
            0..15 => "background",
            15..75 => "train",
            75..87 => "interactive-preemptible",
            87..95 => "build",
            _ => "inference",
        }
    }

    /// A queue, by the weight of its department.
    fn weighted_queue(&mut self) -> usize {
        let sum: f64 = self.weights.iter().sum();
        let mut point = self.rng.random_range(0.0..sum);
        let department = self.weights.iter().position(|weight| {
            point -= weight;
            point < 0.0
        });
        let department = department.unwrap_or(0);
        self.queue_of_departments(department..department + 1)
    }

    fn queue_of_departments(&mut self, departments: std::ops::Range<usize>) -> usize {
        let is_in = |queue: &usize| departments.contains(&self.queues[*queue].department);
        let queues: Vec<usize> = (0..self.queues.len()).filter(is_in).collect();
        queues[self.rng.random_range(0..queues.len())]
    }
}

// === impl JobSpec ===

impl JobSpec {
    fn gpu(
        prefix: &'static str,
        queue: usize,
        class: &'static str,
        pods: usize,
        min_member: u32,
        gpu: GpuRequest,
    ) -> JobSpec {
        let cpu_millis = match gpu {
            GpuRequest::None => 1000,
            GpuRequest::Fraction(_) => 500,
            GpuRequest::Whole(count) => i64::from(count) * 4000,
        };
        JobSpec {
            prefix,
            queue,
            class,
            pods,
            min_member,
            gpu,
            cpu_millis,
            node_selector: None,
            requires_rack: false,
            is_spread: false,
        }
    }

    fn cpu(prefix: &'static str, queue: usize, class: &'static str, pods: usize) -> JobSpec {
        JobSpec::gpu(prefix, queue, class, pods, pods as u32, GpuRequest::None)
    }
}

fn node_name(index: usize) -> String {
    format!("node-{index:05}")
}
