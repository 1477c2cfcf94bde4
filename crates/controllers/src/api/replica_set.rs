//! The spec and status of ReplicaSets, and the spec of ReplicationControllers.

use kubernetes::read::nullable;
use serde::{Deserialize, Serialize};

use crate::k8s_time::Condition;
use crate::object_table::{ObjectSpec, is_zero};
use crate::pod_template::PodTemplate;

/// ReplicaSetSpec of apps/v1.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ReplicaSetSpec {
    pub(crate) replicas: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) min_ready_seconds: i64,
    pub(crate) template: PodTemplate,
}

/// ReplicaSetStatus of apps/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ReplicaSetStatus {
    pub(crate) replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) fully_labeled_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) ready_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) available_replicas: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) terminating_replicas: Option<i64>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) observed_generation: i64,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
}

/// ReplicationControllerSpec of v1; only its replicas are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReplicationControllerSpec {
    pub(crate) replicas: Option<i64>,
}

impl ObjectSpec for ReplicaSetSpec {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "ReplicaSet";
    const EVENT_SOURCE: &'static str = "replicaset-controller";
    type Status = ReplicaSetStatus;
}

impl ObjectSpec for ReplicationControllerSpec {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "ReplicationController";
    const EVENT_SOURCE: &'static str = "replication-controller";
    type Status = ();
}

impl ReplicaSetSpec {
    pub(crate) fn replicas(&self) -> i64 {
        self.replicas.unwrap_or(1)
    }
}

impl ReplicationControllerSpec {
    pub(crate) fn replicas(&self) -> i64 {
        self.replicas.unwrap_or(1)
    }
}
