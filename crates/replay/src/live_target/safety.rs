//! Safety checks: signs that a target is a cluster in use.

use anyhow::bail;
use history::Selection;
use live::Connection;
use model::Kind;

use super::recorded_part::RecordedPart;

/// Returns the risks of a target: it is the recorded cluster, or its nodes may be real. A failed check is a risk too.
/// Unless risks are accepted, the first of them is an error.
pub(super) async fn risks(
    connection: &Connection,
    part: &RecordedPart<'_>,
    run: &str,
    are_accepted: bool,
) -> anyhow::Result<Vec<String>> {
    let context = connection.context();
    let mut risks = Vec::new();
    let recorded = recorded_uid(part)?;
    match connection.cluster_uid().await {
        Ok(uid) if recorded.is_some() && recorded == uid => risks.push(format!(
            "{context} is the recorded cluster: its own objects have the names of the recorded ones"
        )),
        Ok(_) => {}
        Err(error) => {
            risks.push(format!("cannot determine whether {context} is the recorded cluster: {error}"))
        }
    }
    match connection.find_real_node(run).await {
        Ok(Some(node)) => risks.push(format!(
            "node {node} of {context} seems to be real (neither of KWOK nor of this run): recorded containers would run on \
             it, with its network access"
        )),
        Ok(None) => {}
        Err(error) => risks.push(format!("cannot determine whether the nodes of {context} are real: {error}")),
    }
    match risks.first() {
        Some(risk) if !are_accepted => bail!("{risk}; use --yes to proceed"),
        _ => Ok(risks),
    }
}

fn recorded_uid(part: &RecordedPart<'_>) -> anyhow::Result<Option<String>> {
    let selection = Selection {
        kinds: Some(vec![Kind::new("", "Namespace")]),
        name: Some("kube-system".to_owned()),
        ..part.everything.clone()
    };
    let mut recorded = None;
    part.open_history.history.for_each_at(part.end, &selection, |version| {
        recorded = version.object.meta().uid.map(|uid| uid.into_owned());
    })?;
    Ok(recorded)
}
