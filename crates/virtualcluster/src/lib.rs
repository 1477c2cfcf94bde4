//! Kubernetes clusters in this process. A [`PastStore`] is the cluster as it was at a moment of a history; an
//! `apiserver` serves it to kubectl and other clients.

mod credentials;
mod kubeconfig;
mod past_store;

pub use credentials::Credentials;
pub use kubeconfig::{Kubeconfig, KubeconfigCluster};
pub use past_store::PastStore;
