//! Settings of the process and of other processes: leader election, the connection to the API server, extenders. They
//! are validated as in kube-scheduler; only the resources that extenders manage affect the simulation.

use std::collections::BTreeSet;
use std::sync::Arc;

use kubernetes::selector::check_key;

use super::BadConfiguration;
use super::config_value::{ConfigFields, ConfigValue};

/// The effects of extenders.
#[derive(Default)]
pub(super) struct Extenders {
    /// The resources that NodeResourcesFit is to ignore.
    pub(super) ignored_resources: Vec<Arc<str>>,
    /// A message for each extender that it is not called.
    pub(super) unsupported_features: Vec<String>,
}

// === impl Extenders ===

impl Extenders {
    /// Reads the list of extenders.
    pub(super) fn read(value: &ConfigValue<'_>) -> Result<Extenders, BadConfiguration> {
        let mut extenders = Extenders::default();
        let mut managed = BTreeSet::new();
        let mut binder: Option<String> = None;
        for extender in value.list()? {
            let fields = extender.fields(&EXTENDER)?;
            let text = |name: &str| fields.get(name).text().map(Option::unwrap_or_default);
            let (url, prioritize, bind) = (text("urlPrefix")?, text("prioritizeVerb")?, text("bindVerb")?);
            text("filterVerb")?;
            text("preemptVerb")?;
            for name in ["enableHTTPS", "nodeCacheCapable", "ignorable"] {
                fields.get(name).flag()?;
            }
            fields.duration("httpTimeout")?;
            check_tls(&fields.get("tlsConfig"))?;
            let weight = fields.get("weight");
            if weight.int64()?.unwrap_or(0) <= 0 && !prioritize.is_empty() {
                return Err(weight.bad("must be positive for an extender with prioritizeVerb"));
            }
            if !bind.is_empty() {
                if let Some(first) = binder {
                    return Err(fields
                        .get("bindVerb")
                        .bad(format!("only one extender can bind, found {first} before")));
                }
                binder = Some(extender.path().to_owned());
            }
            for resource in fields.get("managedResources").list()? {
                extenders.read_resource(&resource, &mut managed)?;
            }
            let path = extender.path();
            extenders.unsupported_features.push(format!("the extender {url:?} is not called ({path})"));
        }
        Ok(extenders)
    }

    fn read_resource<'v>(
        &mut self,
        resource: &ConfigValue<'v>,
        managed: &mut BTreeSet<&'v str>,
    ) -> Result<(), BadConfiguration> {
        let fields = resource.fields(&["name", "ignoredByScheduler"])?;
        let value = fields.get("name");
        let name = value.text()?.unwrap_or_default();
        if !is_extended(name) {
            return Err(value.bad(format!("{name:?} is not an extended resource such as example.com/gpu")));
        }
        if !managed.insert(name) {
            return Err(value.bad(format!("duplicate resource {name}")));
        }
        if fields.get("ignoredByScheduler").flag()? == Some(true) {
            self.ignored_resources.push(name.into());
        }
        Ok(())
    }
}

const EXTENDER: [&str; 12] = [
    "urlPrefix",
    "filterVerb",
    "preemptVerb",
    "prioritizeVerb",
    "weight",
    "bindVerb",
    "enableHTTPS",
    "tlsConfig",
    "httpTimeout",
    "nodeCacheCapable",
    "managedResources",
    "ignorable",
];

/// Files and certificates are not read, as extenders are not called.
fn check_tls(value: &ConfigValue<'_>) -> Result<(), BadConfiguration> {
    let files = ["serverName", "certFile", "keyFile", "caFile"];
    let bytes = ["certData", "keyData", "caData"];
    let names: Vec<&str> = ["insecure"].into_iter().chain(files).chain(bytes).collect();
    let fields = value.fields(&names)?;
    for name in files {
        fields.get(name).text()?;
    }
    for name in bytes {
        fields.get(name).has_bytes()?;
    }
    let insecure = fields.get("insecure");
    let has_authority = fields.get("caFile").text()?.is_some_and(|file| !file.is_empty())
        || fields.get("caData").has_bytes()?;
    if insecure.flag()? == Some(true) && has_authority {
        return Err(insecure.bad("insecure cannot be combined with caFile or caData"));
    }
    Ok(())
}

/// Whether it is a valid name of an extended resource, also with the prefix `requests.`.
fn is_extended(name: &str) -> bool {
    let own = !name.contains('/') || name.contains("kubernetes.io/") || name.starts_with("requests.");
    !own && check_key(name).is_ok() && check_key(&format!("requests.{name}")).is_ok()
}

/// Checks `leaderElection` with its defaults.
pub(super) fn check_leader_election(value: &ConfigValue<'_>) -> Result<(), BadConfiguration> {
    const SECOND: i64 = 1_000_000_000;
    let fields = value.fields(&[
        "leaderElect",
        "leaseDuration",
        "renewDeadline",
        "retryPeriod",
        "resourceLock",
        "resourceName",
        "resourceNamespace",
    ])?;
    for name in ["resourceName", "resourceNamespace"] {
        fields.get(name).text()?;
    }
    let lock = fields.get("resourceLock").text()?.unwrap_or_default();
    let lease = duration_or(&fields, "leaseDuration", 15 * SECOND)?;
    let renew = duration_or(&fields, "renewDeadline", 10 * SECOND)?;
    let retry = duration_or(&fields, "retryPeriod", 2 * SECOND)?;
    if fields.get("leaderElect").flag()? == Some(false) {
        return Ok(());
    }
    for (name, nanos) in [("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry)] {
        if nanos <= 0 {
            return Err(fields.get(name).bad("must be positive"));
        }
    }
    if lease <= renew {
        return Err(fields.get("leaseDuration").bad("must be longer than renewDeadline"));
    }
    if !["", "leases"].contains(&lock) {
        return Err(fields.get("resourceLock").bad(format!("{lock:?} is not supported; must be leases")));
    }
    Ok(())
}

/// Checks `clientConnection`.
pub(super) fn check_connection(value: &ConfigValue<'_>) -> Result<(), BadConfiguration> {
    let fields = value.fields(&["kubeconfig", "acceptContentTypes", "contentType", "qps", "burst"])?;
    for name in ["kubeconfig", "acceptContentTypes", "contentType"] {
        fields.get(name).text()?;
    }
    fields.get("qps").check_float32()?;
    let burst = fields.get("burst");
    if burst.int32()?.is_some_and(|burst| burst < 0) {
        return Err(burst.bad("must not be negative"));
    }
    Ok(())
}

/// A duration of zero stands for the default as well.
fn duration_or(fields: &ConfigFields<'_>, name: &str, default: i64) -> Result<i64, BadConfiguration> {
    Ok(fields.duration(name)?.filter(|nanos| *nanos != 0).unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[track_caller]
    fn check_extenders(extenders: Value, expected: Result<&[&str], &str>) {
        let read = Extenders::read(&ConfigValue::root(&extenders));
        let read = read.map(|extenders| extenders.ignored_resources).map_err(|error| error.path);
        let expected = expected.map(|names| names.iter().map(|name| Arc::from(*name)).collect());
        assert_eq!(read, expected.map_err(str::to_owned));
    }

    #[test]
    fn resources_ignored_by_the_scheduler_are_collected() {
        let managed = |name: &str, ignored: bool| json!({"name": name, "ignoredByScheduler": ignored});
        check_extenders(
            json!([
                {"managedResources": [managed("a.com/x", true), managed("a.com/y", false)]},
                {"managedResources": [managed("a.com/z", true)]},
            ]),
            Ok(&["a.com/x", "a.com/z"]),
        );
        check_extenders(
            json!([{"managedResources": [managed("a.com/x", true)]}, {"managedResources": [managed("a.com/x", true)]}]),
            Err("[1].managedResources[0].name"),
        );
    }

    #[test]
    fn one_extender_can_bind() {
        check_extenders(json!([{"bindVerb": "b"}, {"bindVerb": ""}]), Ok(&[]));
        check_extenders(json!([{"bindVerb": "b"}, {"bindVerb": "b"}]), Err("[1].bindVerb"));
    }

    #[test]
    fn an_extender_that_prioritizes_has_a_weight() {
        check_extenders(json!([{"prioritizeVerb": "p", "weight": 1}]), Ok(&[]));
        check_extenders(json!([{"prioritizeVerb": "p"}]), Err("[0].weight"));
    }

    #[test]
    fn an_extended_resource_is_none_of_kubernetes_own() {
        assert!(is_extended("example.com/gpu"));
        for name in ["cpu", "kubernetes.io/x", "requests.example.com/x", "example.com/", "a b/c", ""] {
            assert!(!is_extended(name), "{name}");
        }
        assert!(is_extended(&format!("{}/b", "a".repeat(244))));
        assert!(!is_extended(&format!("{}/b", "a".repeat(245))));
    }

    #[test]
    fn a_lease_outlives_the_deadline_to_renew_it() {
        let check = |election: Value| {
            check_leader_election(&ConfigValue::root(&election)).map_err(|error| error.path)
        };
        assert_eq!(check(json!({"leaseDuration": "11s"})), Ok(()));
        assert_eq!(check(json!({"leaseDuration": "10s"})), Err("leaseDuration".to_owned()));
        assert_eq!(check(json!({"leaseDuration": "10s", "leaderElect": false})), Ok(()));
    }
}
