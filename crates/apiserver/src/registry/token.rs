//! The subresource `token` of service accounts, and the service accounts whose tokens clients send.

use std::time::Duration;

use kubernetes::time::{after, whole_second};
use model::{Kind, NamespacedName};
use serde_json::{Value, json};

use super::Registry;
use super::metadata::metadata_text;
use super::update::parsed;
use crate::resource::Resource;
use crate::service_account_token::{
    ClaimedObject, Claims, ISSUER, KubernetesClaims, TokenSigner, openid_configuration, seconds,
};
use crate::status::{ApiError, InvalidField};
use crate::store::StoreError;
use crate::user::UserInfo;

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
/// The valid durations of a token, in seconds: ten minutes, and 2^32.
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
const DEFAULT_SECONDS: i64 = 3600;

/// The objects that a token is bound to, besides its service account.
#[derive(Default)]
struct BoundObjects {
    node: Option<ClaimedObject>,
    pod: Option<ClaimedObject>,
    secret: Option<ClaimedObject>,
}

impl Registry {
    /// Signs tokens of service accounts with this key.
    #[must_use]
    pub fn with_token_signer(mut self, signer: TokenSigner) -> Registry {
        self.token_signer = Some(signer);
        self
    }

    /// Creates a token for a service account, as a TokenRequest says. Returns the request with the token.
    pub(crate) fn create_token(
        &self,
        accounts: &Resource,
        name: &NamespacedName,
        mut request: Value,
    ) -> Result<Value, ApiError> {
        let signer = self.token_signer.as_ref().ok_or_else(ApiError::unknown_path)?;
        self.check_namespace_exists(accounts, &name.namespace, &request)?;
        check_name(&request, name)?;
        let account = parsed(&self.current(accounts, name)?)?;
        let spec = &request["spec"];
        let duration = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
        check_duration(duration)?;
        let bound = self.bound_objects(&name.name, &name.namespace, &spec["boundObjectRef"])?;
        let mut audiences: Vec<String> = spec["audiences"]
            .as_array()
            .map(|audiences| audiences.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        let now = whole_second(self.now());
        let claims = Claims {
            audiences: audiences.clone(),
            expires: seconds(now) + duration,
            issued: seconds(now),
            issuer: ISSUER.to_owned(),
            id: self.new_uid(),
            kubernetes: KubernetesClaims {
                namespace: name.namespace.to_string(),
                node: bound.node,
                pod: bound.pod,
                secret: bound.secret,
                serviceaccount: ClaimedObject {
                    name: name.name.to_string(),
                    uid: metadata_text(&account, "uid").to_owned(),
                },
            },
            not_before: seconds(now),
            subject: format!("system:serviceaccount:{}:{}", name.namespace, name.name),
        };
        let token = signer.sign(&claims).map_err(|_| StoreError::Failed("cannot sign a token".to_owned()))?;
        let expires = after(now, Duration::from_secs(duration.unsigned_abs()));
        request["kind"] = KIND.into();
        request["apiVersion"] = format!("{GROUP}/v1").into();
        request["metadata"] = json!({
            "name": *name.name, "namespace": *name.namespace, "uid": metadata_text(&account, "uid"),
            "creationTimestamp": now.to_string(),
        });
        request["spec"]["audiences"] = audiences.into();
        request["spec"]["expirationSeconds"] = duration.into();
        if request["spec"].get("boundObjectRef").is_none() {
            request["spec"]["boundObjectRef"] = Value::Null;
        }
        request["status"] = json!({"token": token, "expirationTimestamp": expires.to_string()});
        Ok(request)
    }

    /// The service account whose token this is, if it is valid here and its objects exist.
    pub(crate) fn user_of_token(&self, token: &str) -> Option<UserInfo> {
        let claims = self.token_signer.as_ref()?.verify(token, self.now())?;
        let KubernetesClaims { namespace, node, pod, secret, serviceaccount } = &claims.kubernetes;
        let objects = [
            ("ServiceAccount", &**namespace, Some(serviceaccount)),
            ("Pod", namespace, pod.as_ref()),
            ("Secret", namespace, secret.as_ref()),
            // The node of a pod is named without being a condition of the token.
            ("Node", "", node.as_ref().filter(|_| pod.is_none())),
        ];
        let exist = objects.into_iter().all(|(kind, namespace, claimed)| {
            claimed.is_none_or(|claimed| {
                self.uid_of(kind, namespace, &claimed.name).as_ref() == Some(&claimed.uid)
            })
        });
        let is_for_us = claims.audiences.iter().any(|audience| audience == ISSUER);
        (exist && is_for_us).then(|| claims.user())
    }

    /// A document that describes the issuer of tokens, by its path.
    pub(crate) fn issuer_document(&self, path: &str) -> Option<Value> {
        let signer = self.token_signer.as_ref()?;
        match path {
            "/.well-known/openid-configuration" => Some(openid_configuration()),
            "/openid/v1/jwks" => Some(signer.key_set()),
            _ => None,
        }
    }

    /// The objects that a token is bound to by a `boundObjectRef`.
    fn bound_objects(
        &self,
        account: &str,
        namespace: &str,
        reference: &Value,
    ) -> Result<BoundObjects, ApiError> {
        let mut bound = BoundObjects::default();
        if !reference.is_object() {
            return Ok(bound);
        }
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let (api_version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
        let (namespace, claim) = match (api_version, kind) {
            ("v1", "Pod") => (namespace, &mut bound.pod),
            ("v1", "Secret") => (namespace, &mut bound.secret),
            ("v1", "Node") => ("", &mut bound.node),
            _ => {
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                return Err(ApiError::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        let table = self.table();
        let resource = table.of_kind(&Kind::new("", kind)).ok_or_else(ApiError::unknown_path)?;
        let object = parsed(&self.current(resource, &NamespacedName::new(namespace, name))?)?;
        if kind == "Pod" && object["spec"]["serviceAccountName"] != account {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
            )));
        }
        let uid = metadata_text(&object, "uid").to_owned();
        if !text("uid").is_empty() && text("uid") != uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
                 deleted and then recreated",
                text("uid")
            );
            // Kubernetes names the kind here, not the resource.
            let resource = Resource { plural: kind.to_owned(), ..resource.clone() };
            return Err(ApiError::conflict(&resource, name, why));
        }
        *claim = Some(ClaimedObject { name: name.to_owned(), uid });
        if let Some(node) =
            object["spec"]["nodeName"].as_str().filter(|node| kind == "Pod" && !node.is_empty())
        {
            let uid = self.uid_of("Node", "", node).unwrap_or_default();
            bound.node = Some(ClaimedObject { name: node.to_owned(), uid });
        }
        Ok(bound)
    }

    /// The uid of an object of the core group.
    fn uid_of(&self, kind: &str, namespace: &str, name: &str) -> Option<String> {
        let object = self.get(&Kind::new("", kind), &NamespacedName::new(namespace, name))?;
        object.meta().uid.as_ref().map(ToString::to_string)
    }
}

/// A TokenRequest may repeat the name and namespace of its service account.
fn check_name(request: &Value, account: &NamespacedName) -> Result<(), ApiError> {
    let namespace = metadata_text(request, "namespace");
    if !namespace.is_empty() && *namespace != *account.namespace {
        return Err(ApiError::other_namespace());
    }
    let name = metadata_text(request, "name");
    if name.is_empty() || *name == *account.name {
        return Ok(());
    }
    let why = "must match the service account name if specified";
    let error = InvalidField::invalid("metadata.name", &format!("{name:?}"), why);
    Err(ApiError::invalid_fields(GROUP, KIND, &account.name, &[error]))
}

fn check_duration(seconds: i64) -> Result<(), ApiError> {
    let why = match seconds {
        ..MIN_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_SECONDS..=MAX_SECONDS => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = InvalidField::invalid("spec.expirationSeconds", &seconds.to_string(), why);
    Err(ApiError::invalid_fields(GROUP, KIND, "", &[error]))
}
