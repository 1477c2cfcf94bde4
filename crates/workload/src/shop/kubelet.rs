//! What kubelets do: pull, start, probe, stop, and report.

use std::sync::Arc;

use crate::objects::SECOND;
use crate::objects::event::Reporter;
use crate::objects::pod::{Condition, Container, Ended, Phase, Pod, Running};
use crate::objects::template::Shape;

use super::cluster::{Cluster, Due, Life, Maker, PodId};

impl Cluster {
    /// The kubelet has seen a pod that was given to it.
    pub(super) fn seen(&mut self, id: PodId) {
        let Some(node) = self.working_node(id) else { return };
        let now = self.log.now;
        let Some(pod) = self.living(id) else { return };
        let no = Condition { holds: false, since: now, reason: "ContainersNotReady" };
        pod.running = Some(Running {
            start: now,
            sandbox: None,
            ready: no,
            containers_ready: no,
            container: Container::Waiting { reason: "ContainerCreating", message: String::new() },
            last: None,
            restarts: 0,
            container_id: String::new(),
            reported: now,
        });
        let (image, digest) = (pod.template.outline.image.clone(), pod.template.outline.digest.clone());
        self.changed(id);
        let by = self.kubelet(id);
        let present = self.nodes[node].it.node.images.iter().any(|(known, _)| *known == image);
        let nanos = if present {
            let note = format!(
                "Container image \"{image}\" already present on machine and can be accessed by the pod"
            );
            self.say_of_pod(id, by, false, "Pulled", note);
            self.log.millis(300, 1_200)
        } else {
            self.say_of_pod(id, by, false, "Pulling", format!("Pulling image \"{image}\""));
            self.log.millis(1_500, 7_000)
        };
        if digest.is_empty() {
            self.after(nanos, Due::PullFailed(id, 0));
        } else {
            self.after(nanos, Due::Pulled(id));
        }
    }

    /// The image is there: the container is made and started.
    pub(super) fn pulled(&mut self, id: PodId) {
        let Some(node) = self.working_node(id) else { return };
        let now = self.log.now;
        let address = &mut self.nodes[node].it.next_address;
        *address = if *address == 254 { 2 } else { *address + 1 };
        let ip = format!("10.244.{}.{}", self.nodes[node].it.node.subnet, self.nodes[node].it.next_address);
        let container_id = self.log.chance.hex(64);
        let size = self.log.chance.between(24_000_000..=310_000_000);
        let Some(pod) = self.living(id) else { return };
        let Some(running) = &mut pod.running else { return };
        let took = now.nanos_since(running.start) / 1_000_000;
        let to_the_end = pod.template.outline.shape == Shape::ToTheEnd;
        let ready = Condition {
            holds: to_the_end,
            since: now,
            reason: if to_the_end { "" } else { "ContainersNotReady" },
        };
        running.sandbox = Some(running.start.plus_nanos(SECOND).min(now));
        running.container = Container::Running { since: now };
        running.container_id = container_id;
        running.reported = now;
        running.ready = Condition { since: if to_the_end { now } else { running.ready.since }, ..ready };
        running.containers_ready = running.ready;
        pod.ip = ip;
        pod.phase = Phase::Running;
        let (image, digest) = (pod.template.outline.image.clone(), pod.template.outline.digest.clone());
        let by = self.kubelet(id);
        if !self.nodes[node].it.node.images.iter().any(|(known, _)| *known == image) {
            let note = format!(
                "Successfully pulled image \"{image}\" in {0}.{1:03}s ({0}.{1:03}s including waiting). Image size: {size} bytes.",
                took / 1_000,
                took % 1_000
            );
            self.say_of_pod(id, by.clone(), false, "Pulled", note);
            self.nodes[node].it.node.images.insert(0, (image, digest));
        }
        self.say_of_pod(id, by.clone(), false, "Created", "Container created");
        self.say_of_pod(id, by, false, "Started", "Container started");
        self.changed(id);
        self.goes_on(id);
    }

    /// What a started container does next.
    fn goes_on(&mut self, id: PodId) {
        let Some(life) = self.pods.get(&id) else { return };
        let outline = &life.pod.template.outline;
        let (from, to) = match (outline.shape, &*outline.app) {
            (Shape::ToTheEnd, "nightly-report") => (600_000, 900_000),
            (Shape::ToTheEnd, "image-resize") => (110_000, 260_000),
            (Shape::ToTheEnd, _) => (25_000, 140_000),
            (Shape::OnEveryNode, _) => (700, 1_500),
            (Shape::WithDisk, _) => (6_000, 14_000),
            (Shape::Serving, _) => (3_000, 9_000),
        };
        let due = if outline.shape == Shape::ToTheEnd { Due::Finished(id) } else { Due::Ready(id) };
        let nanos = self.log.millis(from, to);
        self.after(nanos, due);
    }

    /// No registry has the image.
    pub(super) fn pull_failed(&mut self, id: PodId, times: u32) {
        if self.working_node(id).is_none() {
            return;
        }
        let by = self.kubelet(id);
        let Some(pod) = self.living(id) else { return };
        let image = pod.template.outline.image.clone();
        let error = format!(
            "rpc error: code = NotFound desc = failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": {image}: not found"
        );
        let back_off = format!("Back-off pulling image \"{image}\"");
        // A failed pull is followed by backing off: 10 seconds at first, twice as long each time.
        if times.is_multiple_of(2) {
            let note = format!("Failed to pull image \"{image}\": {error}");
            if times > 0 {
                self.say_of_pod(id, by.clone(), false, "Pulling", format!("Pulling image \"{image}\""));
            }
            self.report(id, |running| {
                running.container = Container::Waiting { reason: "ErrImagePull", message: error };
            });
            self.say_of_pod(id, by.clone(), true, "Failed", note);
            self.say_of_pod(id, by, true, "Failed", "Error: ErrImagePull");
            let nanos = self.log.millis(9_000, 14_000);
            self.after(nanos, Due::PullFailed(id, times + 1));
        } else {
            let message = format!("{back_off}: ErrImagePull: {error}");
            self.report(id, |running| {
                running.container = Container::Waiting { reason: "ImagePullBackOff", message };
            });
            self.say_of_pod(id, by.clone(), false, "BackOff", back_off);
            self.say_of_pod(id, by, true, "Failed", "Error: ImagePullBackOff");
            let nanos = (10 * SECOND) << (times / 2).min(4);
            self.after(nanos, Due::PullFailed(id, times + 1));
        }
    }

    /// The readiness probe succeeds.
    pub(super) fn ready(&mut self, id: PodId) {
        self.set_ready(id, true);
        let crashes = self
            .pods
            .get(&id)
            .is_some_and(|life| self.troubles.crash == Some(&life.pod.template.outline.app));
        if crashes {
            let nanos = self.log.millis(3_000, 8_000);
            self.after(nanos, Due::Crash(id));
        }
    }

    /// The readiness probe fails for a while.
    pub(super) fn unready(&mut self, id: PodId, seconds: i64) {
        let by = self.kubelet(id);
        let note = "Readiness probe failed: HTTP probe failed with statuscode: 503";
        self.say_of_pod(id, by, true, "Unhealthy", note);
        self.set_ready(id, false);
        self.after(seconds * SECOND, Due::Ready(id));
    }

    fn set_ready(&mut self, id: PodId, holds: bool) {
        if self.working_node(id).is_none() {
            return;
        }
        let now = self.log.now;
        let running = self.living(id).filter(|pod| !pod.is_deleting()).and_then(|pod| pod.running.as_ref());
        let started = running.filter(|running| matches!(running.container, Container::Running { .. }));
        if started.is_none_or(|running| running.ready.holds == holds) {
            return;
        }
        self.report(id, |running| {
            running.ready =
                Condition { holds, since: now, reason: if holds { "" } else { "ContainersNotReady" } };
            running.containers_ready = running.ready;
        });
    }

    /// A container did what it had to do.
    pub(super) fn finished(&mut self, id: PodId) {
        if self.working_node(id).is_none() {
            return;
        }
        let Some(pod) = self.living(id).filter(|pod| !pod.is_deleting()) else { return };
        pod.phase = Phase::Succeeded;
        let node = pod.node.clone();
        self.end_container(id, 0, "Completed", "PodCompleted");
        self.wake(node.as_ref());
    }

    /// A container dies of an error.
    pub(super) fn crash(&mut self, id: PodId) {
        if self.working_node(id).is_none() {
            return;
        }
        let running = self.pods.get(&id).and_then(|life| life.pod.running.as_ref());
        if !running.is_some_and(|running| matches!(running.container, Container::Running { .. })) {
            return;
        }
        self.end_container(id, 1, "Error", "ContainersNotReady");
        self.after(SECOND, Due::BackOff(id));
    }

    /// The kubelet waits before it starts a container again.
    pub(super) fn back_off(&mut self, id: PodId) {
        if self.working_node(id).is_none() {
            return;
        }
        let by = self.kubelet(id);
        let Some(pod) = self.living(id) else { return };
        let (name, namespace, uid) = (&pod.meta.key.name, &pod.meta.key.namespace, &pod.meta.uid);
        let app = &pod.template.outline.app;
        let what = format!("restarting failed container={app} pod={name}_{namespace}({uid})");
        let note = format!("Back-off restarting failed container {app} in pod {name}_{namespace}({uid})");
        let restarts = pod.running.as_ref().map_or(0, |running| running.restarts);
        let seconds = 10 << restarts.min(4);
        let length =
            if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) };
        self.report(id, |running| {
            if let Container::Ended(ended) = &running.container {
                running.last = Some(ended.clone());
            }
            let message = format!("back-off {length} {what}");
            running.container = Container::Waiting { reason: "CrashLoopBackOff", message };
        });
        self.say_of_pod(id, by, true, "BackOff", note);
        self.after(seconds * SECOND, Due::Restart(id));
    }

    /// The kubelet starts a container again.
    pub(super) fn restart(&mut self, id: PodId) {
        if self.working_node(id).is_none() {
            return;
        }
        let (now, container_id) = (self.log.now, self.log.chance.hex(64));
        let by = self.kubelet(id);
        self.report(id, |running| {
            if let Container::Ended(ended) = &running.container {
                running.last = Some(ended.clone());
            }
            running.container = Container::Running { since: now };
            running.container_id = container_id;
            running.restarts += 1;
        });
        self.say_of_pod(id, by.clone(), false, "Created", "Container created");
        self.say_of_pod(id, by, false, "Started", "Container started");
        self.goes_on(id);
    }

    /// The kubelet has seen that a pod is to go.
    pub(super) fn kill(&mut self, id: PodId) {
        let Some(life) = self.pods.get(&id) else { return };
        let running = life.pod.running.as_ref();
        let started = running.is_some_and(|running| matches!(running.container, Container::Running { .. }));
        if !started {
            let nanos = self.log.millis(200, 900);
            self.after(nanos, Due::Gone(id));
            return;
        }
        let note = format!("Stopping container {}", life.pod.template.outline.app);
        let by = self.kubelet(id);
        self.say_of_pod(id, by, false, "Killing", note);
        let nanos = self.log.millis(900, 5_500);
        self.after(nanos, Due::Stopped(id));
    }

    /// The containers of a pod that is to go have stopped.
    pub(super) fn stopped(&mut self, id: PodId) {
        if self.working_node(id).is_none() {
            return;
        }
        let Some(pod) = self.living(id) else { return };
        let graceful = pod.template.outline.shape != Shape::ToTheEnd;
        pod.phase = if graceful { Phase::Succeeded } else { Phase::Failed };
        if graceful {
            self.end_container(id, 0, "Completed", "PodCompleted");
        } else {
            self.end_container(id, 143, "Error", "PodFailed");
        }
        let nanos = self.log.millis(150, 700);
        self.after(nanos, Due::Gone(id));
    }

    /// The kubelet has no trace of a pod any more.
    pub(super) fn gone(&mut self, id: PodId) {
        if self.working_node(id).is_none() {
            return;
        }
        if let Some(Life { pod, maker: Maker::Job(job), .. }) = self.pods.get_mut(&id)
            && pod.tracked
        {
            pod.tracked = false;
            let job = *job;
            self.jobs[job].it.0.status.failed += 1;
            self.changed(id);
        }
        self.remove_pod(id);
    }

    /// The kubelet takes up its work where it was left.
    pub(super) fn catch_up(&mut self, node: usize) {
        let name = self.nodes[node].it.node.meta.key.name.clone();
        let pods: Vec<PodId> = self.pods_on(&name).map(|(id, _)| id).collect();
        for id in pods {
            let Some(life) = self.pods.get(&id) else { continue };
            if life.pod.is_deleting() {
                self.kill(id);
                continue;
            }
            let nanos = self.log.millis(400, 2_500);
            let due = match life.pod.running.as_ref().map(|running| &running.container) {
                None => Due::Seen(id),
                Some(Container::Waiting { reason: "CrashLoopBackOff", .. }) => Due::Restart(id),
                Some(Container::Waiting { .. }) if life.pod.template.outline.digest.is_empty() => {
                    Due::PullFailed(id, 0)
                }
                Some(Container::Waiting { .. }) => Due::Pulled(id),
                Some(Container::Running { .. } | Container::Ended(_))
                    if life.pod.template.outline.shape == Shape::ToTheEnd =>
                {
                    Due::Finished(id)
                }
                Some(Container::Running { .. } | Container::Ended(_)) => Due::Ready(id),
            };
            self.after(nanos, due);
        }
    }

    fn end_container(&mut self, id: PodId, code: i32, reason: &'static str, why: &'static str) {
        let now = self.log.now;
        self.report(id, |running| {
            let from = match running.container {
                Container::Running { since } => since,
                Container::Waiting { .. } | Container::Ended(_) => now,
            };
            let container_id = running.container_id.clone();
            running.container = Container::Ended(Ended { from, to: now, code, reason, container_id });
            for condition in [&mut running.ready, &mut running.containers_ready] {
                let since = if condition.holds { now } else { condition.since };
                *condition = Condition { holds: false, since, reason: why };
            }
        });
    }

    /// Changes what the kubelet says of a pod, and says it.
    fn report(&mut self, id: PodId, change: impl FnOnce(&mut Running)) {
        let now = self.log.now;
        let Some(running) = self.living(id).and_then(|pod| pod.running.as_mut()) else { return };
        running.reported = now;
        change(running);
        self.changed(id);
    }

    fn living(&mut self, id: PodId) -> Option<&mut Pod> {
        self.pods.get_mut(&id).map(|life| &mut life.pod)
    }

    fn kubelet(&self, id: PodId) -> Reporter {
        let node = self.pods.get(&id).and_then(|life| life.pod.node.clone());
        Reporter::Kubelet { node: node.unwrap_or_else(|| Arc::from("")) }
    }

    /// The pod's node, if its kubelet works.
    fn working_node(&self, id: PodId) -> Option<usize> {
        let name = self.pods.get(&id)?.pod.node.as_ref()?;
        self.node(name).filter(|node| !self.nodes[*node].it.silent)
    }
}
