//! Whether a cluster is one that should be left alone.

use anyhow::bail;
use history::Selection;
use live::Connection;
use model::Kind;

use super::part::Part;

/// Refuses the cluster that was recorded, and one whose nodes have real kubelets.
pub(super) async fn check(connection: &Connection, part: &Part<'_>) -> anyhow::Result<()> {
    let context = connection.context();
    let name = Selection {
        kinds: Some(vec![Kind::new("", "Namespace")]),
        name: Some("kube-system".to_owned()),
        ..part.everything.clone()
    };
    let mut recorded = None;
    part.chosen.history.each_at(part.end, &name, |version| {
        recorded = version.object.meta().uid.map(|uid| uid.into_owned());
    })?;
    let uid = connection.uid().await?;
    if recorded.is_some() && recorded == uid {
        bail!("{context} is the cluster that was recorded: say --yes if it is to be changed all the same");
    }
    if let Some(node) = connection.real_node().await? {
        bail!(
            "node {node} of {context} has a real kubelet: say --yes if pods of the recording are to run there"
        );
    }
    Ok(())
}
