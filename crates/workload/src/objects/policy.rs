//! Budgets and autoscalers of pods.

use model::Moment;

use super::{Extra, Manager, Meta, Printed, put, second};

/// A PodDisruptionBudget of the pods of one app.
pub(crate) struct Budget {
    pub(crate) meta: Meta,
    pub(crate) app: &'static str,
    pub(crate) min_available: i64,
    pub(crate) healthy: i64,
    pub(crate) expected: i64,
    /// When the answer last changed.
    pub(crate) since: Moment,
}

/// A HorizontalPodAutoscaler of one Deployment by the use of processors.
pub(crate) struct Scaler {
    pub(crate) meta: Meta,
    pub(crate) target: &'static str,
    pub(crate) min: i64,
    pub(crate) max: i64,
    /// The use it aims at, in percent of what is requested.
    pub(crate) aim: i64,
    pub(crate) current: i64,
    pub(crate) desired: i64,
    /// The use it saw, in percent and in thousandths of a processor for each pod.
    pub(crate) seen: (i64, i64),
    pub(crate) last_scale: Option<Moment>,
    /// Whether, since when, and why it can scale.
    pub(crate) able: (&'static str, String, Moment),
    /// Whether its limits hold it, since when, and why.
    pub(crate) limited: (bool, &'static str, &'static str, Moment),
}

// === impl Budget ===

impl Budget {
    pub(crate) fn allowed(&self) -> i64 {
        (self.healthy - self.min_available).max(0)
    }
}

impl Printed for Budget {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","#);
        let managed = managers(
            &self.meta,
            "policy/v1",
            r#"{"f:spec":{"f:minAvailable":{},"f:selector":{}}}"#,
            self.since,
            r#"{"f:status":{"f:conditions":{},"f:currentHealthy":{},"f:desiredHealthy":{},"f:disruptionsAllowed":{},"f:expectedPods":{},"f:observedGeneration":{}}}"#,
        );
        self.meta.write(out, &Extra { managed: &managed, ..Extra::default() });
        let (status, reason) =
            if self.allowed() > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        let Budget { app, min_available, healthy, expected, .. } = self;
        let generation = self.meta.generation;
        put(
            out,
            format_args!(
                r#","spec":{{"minAvailable":{min_available},"selector":{{"matchLabels":{{"app":"{app}"}}}}}},"status":{{"observedGeneration":{generation},"disruptionsAllowed":{},"currentHealthy":{healthy},"desiredHealthy":{min_available},"expectedPods":{expected},"conditions":[{{"type":"DisruptionAllowed","status":"{status}","observedGeneration":{generation},"lastTransitionTime":"#,
                self.allowed()
            ),
        );
        second(out, self.since);
        put(out, format_args!(r#","reason":"{reason}","message":""}}]}}}}"#));
    }
}

impl Printed for Scaler {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn write(&self, out: &mut String) {
        out.push_str(r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2","#);
        let managed = managers(
            &self.meta,
            "autoscaling/v2",
            r#"{"f:spec":{"f:maxReplicas":{},"f:metrics":{},"f:minReplicas":{},"f:scaleTargetRef":{}}}"#,
            self.last_scale.unwrap_or(self.meta.created),
            r#"{"f:status":{"f:conditions":{},"f:currentMetrics":{},"f:currentReplicas":{},"f:desiredReplicas":{},"f:lastScaleTime":{}}}"#,
        );
        self.meta.write(out, &Extra { managed: &managed, ..Extra::default() });
        let Scaler { target, min, max, aim, current, desired, seen, able, limited, .. } = self;
        put(
            out,
            format_args!(
                r#","spec":{{"scaleTargetRef":{{"kind":"Deployment","name":"{target}","apiVersion":"apps/v1"}},"minReplicas":{min},"maxReplicas":{max},"metrics":[{{"type":"Resource","resource":{{"name":"cpu","target":{{"type":"Utilization","averageUtilization":{aim}}}}}}}]}},"status":{{"#
            ),
        );
        if let Some(at) = self.last_scale {
            out.push_str(r#""lastScaleTime":"#);
            second(out, at);
            out.push(',');
        }
        put(
            out,
            format_args!(
                r#""currentReplicas":{current},"desiredReplicas":{desired},"currentMetrics":[{{"type":"Resource","resource":{{"name":"cpu","current":{{"averageValue":"{}m","averageUtilization":{}}}}}}}],"conditions":[{{"type":"AbleToScale","status":"True","lastTransitionTime":"#,
                seen.1, seen.0
            ),
        );
        second(out, able.2);
        put(
            out,
            format_args!(
                r#","reason":"{}","message":"{}"}},{{"type":"ScalingActive","status":"True","lastTransitionTime":"#,
                able.0, able.1
            ),
        );
        second(out, self.meta.created);
        put(
            out,
            format_args!(
                r#","reason":"ValidMetricFound","message":"the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)"}},{{"type":"ScalingLimited","status":"{}","lastTransitionTime":"#,
                if limited.0 { "True" } else { "False" }
            ),
        );
        second(out, limited.3);
        put(out, format_args!(r#","reason":"{}","message":"{}"}}]}}}}"#, limited.1, limited.2));
    }
}

/// Someone who deploys, and the controller that reports.
fn managers(meta: &Meta, api_version: &str, spec: &str, at: Moment, status: &str) -> String {
    Manager::list(&[
        Manager { name: "helm", api_version, at: meta.created, fields: spec, of_status: false },
        Manager { name: "kube-controller-manager", api_version, at, fields: status, of_status: true },
    ])
}
