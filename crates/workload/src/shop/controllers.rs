//! The controllers of StatefulSets, DaemonSets, Jobs, CronJobs, budgets and pod autoscalers.

use std::sync::Arc;

use model::{Moment, What};

use crate::objects::SECOND;
use crate::objects::event::{Regarding, Reporter};
use crate::objects::pod::Phase;
use crate::objects::template::Template;
use crate::objects::workloads::{Job, JobStatus, SetStatus};

use super::cluster::{Cluster, Due, Listed, Maker, PodId};
use super::story::load;

/// How long a pod autoscaler holds on to the highest number it thought of.
const STABLE: i64 = 300 * SECOND;

impl Cluster {
    pub(super) fn sync_stateful(&mut self, index: usize) {
        let set = &self.stateful[index];
        let mut status = SetStatus { observed: set.meta.generation, ..SetStatus::default() };
        let mut missing = None;
        for ordinal in 0..set.replicas {
            let life = self.pods.values().find(|life| life.maker == Maker::Stateful(index, ordinal));
            match life {
                Some(life) => {
                    let ready = life.pod.is_ready() && !life.pod.is_deleting();
                    status.replicas += 1;
                    status.ready += i64::from(ready);
                    // One after the other: nothing is made while an earlier one is not ready.
                    if !ready && missing.is_none() {
                        missing = Some(None);
                    }
                }
                None if missing.is_none() => missing = Some(Some(ordinal)),
                None => {}
            }
        }
        if let Some(Some(ordinal)) = missing {
            self.add_to_stateful(index, ordinal);
        }
        let set = &mut self.stateful[index];
        if set.status != status {
            set.status = status;
            self.log.publish(What::Modified, set);
        }
    }

    fn add_to_stateful(&mut self, index: usize, ordinal: i64) {
        let set = &self.stateful[index];
        let (app, template) = (set.meta.key.name.clone(), set.template.clone());
        let name: Arc<str> = format!("{app}-{ordinal}").into();
        let labels = template.labels(&[
            ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
            ("controller-revision-hash", &format!("{app}-{}", set.hash)),
            ("statefulset.kubernetes.io/pod-name", &name),
        ]);
        let (owner, regarding) =
            (set.meta.as_owner("apps/v1", "StatefulSet"), Regarding::of(&set.meta, "apps/v1"));
        let (host, generate_name) = (name.clone(), format!("{app}-").into());
        self.make_pod(&name.clone(), Maker::Stateful(index, ordinal), &template, labels, |pod| {
            pod.meta.owner = Some(owner);
            pod.generate_name = generate_name;
            pod.host = Some((host, app.clone()));
        });
        let note = format!("Create Pod {name} in StatefulSet {} successful", regarding.name);
        let by = Reporter::Controller("statefulset-controller");
        self.say(by, false, "SuccessfulCreate", regarding, note);
    }

    pub(super) fn sync_daemon(&mut self, index: usize) {
        let nodes: Vec<Arc<str>> = self
            .nodes
            .iter()
            .filter(|listed| !listed.gone)
            .map(|listed| listed.it.node.meta.key.name.clone())
            .collect();
        for node in &nodes {
            let there = self
                .pods
                .values()
                .any(|life| life.maker == Maker::Daemon(index) && life.pod.pinned.as_ref() == Some(node));
            if !there {
                self.add_to_daemon(index, node.clone());
            }
        }
        let mut status = (nodes.len() as i64, 0, 0);
        for life in self.pods.values().filter(|life| life.maker == Maker::Daemon(index)) {
            if life.pod.pinned.as_ref().is_some_and(|node| nodes.contains(node)) {
                status.1 += 1;
                status.2 += i64::from(life.pod.is_ready());
            }
        }
        let daemon = &mut self.daemons[index];
        if daemon.status != status {
            daemon.status = status;
            self.log.publish(What::Modified, daemon);
        }
    }

    fn add_to_daemon(&mut self, index: usize, node: Arc<str>) {
        let suffix = self.log.chance.suffix(5);
        let daemon = &self.daemons[index];
        let template = daemon.template.clone();
        let generate_name: Arc<str> = format!("{}-", daemon.meta.key.name).into();
        let name = format!("{generate_name}{suffix}");
        let labels =
            template.labels(&[("controller-revision-hash", &daemon.hash), ("pod-template-generation", "1")]);
        let (owner, regarding) =
            (daemon.meta.as_owner("apps/v1", "DaemonSet"), Regarding::of(&daemon.meta, "apps/v1"));
        self.make_pod(&name, Maker::Daemon(index), &template, labels, |pod| {
            pod.meta.owner = Some(owner);
            pod.generate_name = generate_name;
            pod.pinned = Some(node);
        });
        let by = Reporter::Controller("daemonset-controller");
        self.say(by, false, "SuccessfulCreate", regarding, format!("Created pod: {name}"));
    }

    /// Someone, or a CronJob, creates a Job.
    pub(super) fn create_job(
        &mut self,
        name: &str,
        template: &Arc<Template>,
        (parallelism, completions): (i64, i64),
        cron: Option<(usize, Moment)>,
    ) -> usize {
        let mut meta = self.log.meta("batch", "Job", &template.outline.namespace, name);
        meta.owner = cron.map(|(cron, _)| self.crons[cron].meta.as_owner("batch/v1", "CronJob"));
        let scheduled = cron.map(|(_, at)| at);
        let (template, status) = (template.clone(), JobStatus::default());
        let mut job = Job { meta, template, parallelism, completions, scheduled, status };
        self.log.publish(What::Added, &mut job);
        self.jobs.push(Listed::new((job, cron.map(|(cron, _)| cron))));
        let index = self.jobs.len() - 1;
        self.soon(Due::Job(index));
        index
    }

    pub(super) fn sync_job(&mut self, index: usize) {
        if self.jobs[index].gone || self.jobs[index].it.0.status.completion.is_some() {
            return;
        }
        let done: Vec<PodId> = self
            .pods
            .iter()
            .filter(|(_, life)| life.maker == Maker::Job(index) && life.pod.tracked)
            .filter(|(_, life)| life.pod.phase == Phase::Succeeded)
            .map(|(id, _)| *id)
            .collect();
        for id in done {
            if let Some(life) = self.pods.get_mut(&id) {
                life.pod.tracked = false;
                self.log.publish(What::Modified, &mut life.pod);
            }
            self.jobs[index].it.0.status.succeeded += 1;
        }
        let job = &self.jobs[index].it.0;
        let (parallelism, left) = (job.parallelism, job.completions - job.status.succeeded);
        let active = self.active(|maker| maker == Maker::Job(index)).len() as i64;
        for _ in active..parallelism.min(left) {
            self.add_to_job(index);
        }
        self.update_job(index, left <= 0);
    }

    fn add_to_job(&mut self, index: usize) {
        let suffix = self.log.chance.suffix(5);
        let job = &self.jobs[index].it.0;
        let generate_name: Arc<str> = format!("{}-", job.meta.key.name).into();
        let name = format!("{generate_name}{suffix}");
        let (labels, template) = (job.pod_labels(), job.template.clone());
        let (owner, regarding) = (job.meta.as_owner("batch/v1", "Job"), Regarding::of(&job.meta, "batch/v1"));
        self.make_pod(&name, Maker::Job(index), &template, labels, |pod| {
            pod.meta.owner = Some(owner);
            pod.generate_name = generate_name;
            pod.tracked = true;
        });
        let by = Reporter::Controller("job-controller");
        self.say(by, false, "SuccessfulCreate", regarding, format!("Created pod: {name}"));
    }

    fn update_job(&mut self, index: usize, complete: bool) {
        let (job, cron) = &mut self.jobs[index].it;
        let (mut status, cron) = (job.status, *cron);
        (status.active, status.terminating, status.ready) = (0, 0, 0);
        for life in self.pods.values().filter(|life| life.maker == Maker::Job(index)) {
            if life.pod.is_deleting() {
                status.terminating += 1;
            } else if !life.pod.is_finished() {
                status.active += 1;
                status.ready += i64::from(life.pod.is_ready());
            }
        }
        status.start = status.start.or(Some(self.log.now));
        if complete && status.terminating == 0 {
            status.completion = Some(self.log.now);
        }
        if job.status == status {
            return;
        }
        job.status = status;
        self.log.publish(What::Modified, job);
        if status.completion.is_none() {
            return;
        }
        let (name, regarding) = (job.meta.key.name.clone(), Regarding::of(&job.meta, "batch/v1"));
        self.say(Reporter::Controller("job-controller"), false, "Completed", regarding, "Job completed");
        match cron {
            Some(cron) => self.job_of_cron_done(cron, &name),
            None => self.after(3_600 * SECOND, Due::Expired(index)),
        }
    }

    /// A CronJob sees that its Job is done, and keeps the last three.
    fn job_of_cron_done(&mut self, cron: usize, name: &str) {
        let by = Reporter::Controller("cronjob-controller");
        let it = &mut self.crons[cron];
        it.active.clear();
        it.last_success = Some(self.log.now);
        self.log.publish(What::Modified, it);
        let regarding = Regarding::of(&it.meta, "batch/v1");
        let note = format!("Saw completed job: {name}, condition: Complete");
        self.say(by.clone(), false, "SawCompletedJob", regarding.clone(), note);
        let kept: Vec<usize> = (0..self.jobs.len())
            .filter(|job| !self.jobs[*job].gone && self.jobs[*job].it.1 == Some(cron))
            .collect();
        for job in kept.iter().rev().skip(3) {
            let note = format!("Deleted job {}", self.jobs[*job].it.0.meta.key.name);
            self.delete_job(*job);
            self.say(by.clone(), false, "SuccessfulDelete", regarding.clone(), note);
        }
    }

    pub(super) fn delete_job(&mut self, index: usize) {
        self.jobs[index].gone = true;
        self.log.publish(What::Deleted, &mut self.jobs[index].it.0);
        let pods: Vec<PodId> =
            self.pods.iter().filter(|(_, life)| life.maker == Maker::Job(index)).map(|(id, _)| *id).collect();
        for pod in pods {
            self.delete_pod(pod);
        }
    }

    /// The minute of a CronJob has come.
    pub(super) fn fire(&mut self, index: usize) {
        let minute = self.log.now.nanos().div_euclid(60 * SECOND);
        let at = Moment::from_nanos(minute * 60 * SECOND);
        let cron = &self.crons[index];
        let every = if &*cron.meta.key.name == "nightly-report" { 24 * 60 } else { 10 };
        let (busy, name) = (!cron.active.is_empty(), format!("{}-{minute}", cron.meta.key.name));
        let template = cron.template.clone();
        self.at(at.plus_nanos(every * 60 * SECOND + SECOND / 3), Due::Cron(index));
        if busy {
            return;
        }
        let job = self.create_job(&name, &template, (1, 1), Some((index, at)));
        let meta = &self.jobs[job].it.0.meta;
        let active = (meta.key.name.clone(), meta.uid.clone(), meta.version);
        let cron = &mut self.crons[index];
        cron.active.push(active);
        cron.last_schedule = Some(at);
        self.log.publish(What::Modified, cron);
        let regarding = Regarding::of(&cron.meta, "batch/v1");
        let by = Reporter::Controller("cronjob-controller");
        self.say(by, false, "SuccessfulCreate", regarding, format!("Created job {name}"));
    }

    pub(super) fn sync_budget(&mut self, index: usize) {
        let budget = &mut self.budgets[index];
        let (mut healthy, mut expected) = (0, 0);
        for life in self.pods.values() {
            if life.pod.template.outline.app == budget.app && !life.pod.is_deleting() {
                expected += 1;
                healthy += i64::from(life.pod.is_ready());
            }
        }
        if (budget.healthy, budget.expected) == (healthy, expected) {
            return;
        }
        let allowed = budget.allowed() > 0;
        (budget.healthy, budget.expected) = (healthy, expected);
        if allowed != (budget.allowed() > 0) {
            budget.since = self.log.now;
        }
        self.log.publish(What::Modified, budget);
    }

    /// A pod autoscaler looks at the use of processors.
    pub(super) fn sync_scaler(&mut self, index: usize) {
        self.after(15 * SECOND, Due::Scaler(index));
        let now = self.log.now;
        let Some(target) = self.deployment(self.scalers[index].0.target) else { return };
        let deployment = &self.deployments[target].it;
        let (current, request) = (deployment.status.replicas.max(1), deployment.template.outline.milli_cpu);
        let wanted = deployment.replicas;
        let load = load(self.scalers[index].0.target, now, self.troubles.surge);
        let each = load / current;
        let (scaler, thoughts) = &mut self.scalers[index];
        let seen = (each * 100 / request, each);
        let ideal = (load * 100 + request * scaler.aim - 1) / (request * scaler.aim);
        // Within a tenth of the aim nothing changes.
        let ideal = if (seen.0 - scaler.aim).abs() * 10 <= scaler.aim { wanted } else { ideal };
        thoughts.retain(|(at, _)| now.nanos_since(*at) < STABLE);
        thoughts.push((now, ideal));
        let held = thoughts.iter().map(|(_, thought)| *thought).max().unwrap_or(ideal).min(ideal.max(wanted));
        let desired = held.clamp(scaler.min, scaler.max);
        let limited = match held {
            held if held > scaler.max => {
                (true, "TooManyReplicas", "the desired replica count is more than the maximum replica count")
            }
            held if held < scaler.min => {
                (true, "TooFewReplicas", "the desired replica count is less than the minimum replica count")
            }
            _ => (false, "DesiredWithinRange", "the desired count is within the acceptable range"),
        };
        let able = if desired != wanted {
            (
                "SucceededRescale",
                format!("the HPA controller was able to update the target scale to {desired}"),
            )
        } else if held > ideal {
            let message = "recent recommendations were higher than current one, applying the highest recent recommendation";
            ("ScaleDownStabilized", message.to_owned())
        } else {
            ("ReadyForNewScale", "recommended size matches current size".to_owned())
        };
        // Metrics come once a minute; in between only decisions are news.
        let minute = now.nanos().div_euclid(SECOND) % 60 < 15;
        if desired == wanted && !(minute && (scaler.seen != seen || scaler.current != current)) {
            return;
        }
        let why = match wanted {
            wanted if wanted < scaler.min => "Current number of replicas below Spec.MinReplicas",
            wanted if desired > wanted => "cpu resource utilization (percentage of request) above target",
            _ => "All metrics below target",
        };
        (scaler.seen, scaler.current, scaler.desired) = (seen, current, desired);
        // The condition is true throughout: reasons come and go without a transition.
        scaler.able = (able.0, able.1, scaler.able.2);
        let since = if scaler.limited.0 == limited.0 { scaler.limited.3 } else { now };
        scaler.limited = (limited.0, limited.1, limited.2, since);
        if desired != wanted {
            scaler.last_scale = Some(now);
        }
        self.log.publish(What::Modified, scaler);
        if desired != wanted {
            let regarding = Regarding::of(&scaler.meta, "autoscaling/v2");
            let by = Reporter::Controller("horizontal-pod-autoscaler");
            let note = format!("New size: {desired}; reason: {why}");
            self.say(by, false, "SuccessfulRescale", regarding, note);
            self.edit_deployment(target, |deployment| deployment.replicas = desired);
        }
    }
}
