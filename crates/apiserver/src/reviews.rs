//! Reviews of what a client may do, and of who it is. Everyone with the token may do everything that the server does.

use kubernetes::time::whole_second;
use serde_json::{Value, json};

use crate::registry::Registry;
use crate::service_account_token::ISSUER;
use crate::status::{ApiError, InvalidField};
use crate::user::UserInfo;

/// A kind of review, which can only be created.
pub(crate) struct Review {
    pub(crate) group: &'static str,
    /// `subjectaccessreviews`
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
}

/// The reviews, in discovery order. All are in version `v1`.
pub(crate) const REVIEWS: [Review; 6] = [
    Review::new("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", false),
    Review::new("authentication.k8s.io", "tokenreviews", "TokenReview", false),
    Review::new("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", true),
    Review::new("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
    Review::new("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false),
    Review::new("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", false),
];

impl Review {
    pub(crate) const fn new(
        group: &'static str,
        plural: &'static str,
        kind: &'static str,
        namespaced: bool,
    ) -> Review {
        Review { group, plural, kind, namespaced }
    }
}

/// A request for a review.
pub(crate) struct ReviewRequest<'p> {
    review: &'static Review,
    namespace: Option<&'p str>,
}

// === impl ReviewRequest ===

impl ReviewRequest<'_> {
    /// The review that a path names; `None` if it is another path.
    pub(crate) fn parse(path: &str) -> Option<ReviewRequest<'_>> {
        let (group, resource) = path.strip_prefix("/apis/")?.split_once('/')?;
        let resource = resource.strip_prefix("v1/")?;
        let (namespace, plural) = match resource.strip_prefix("namespaces/") {
            Some(rest) => rest.split_once('/').map(|(namespace, plural)| (Some(namespace), plural))?,
            None => (None, resource),
        };
        let is_named = |review: &&Review| {
            (review.group, review.plural, review.namespaced) == (group, plural, namespace.is_some())
        };
        Some(ReviewRequest { review: REVIEWS.iter().find(is_named)?, namespace })
    }

    /// The answer.
    pub(crate) fn answer(
        &self,
        mut review: Value,
        user: &UserInfo,
        registry: &Registry,
        is_read_only: bool,
    ) -> Result<Value, ApiError> {
        if !review.is_object() {
            return Err(ApiError::bad_request("a review is a JSON object"));
        }
        review["apiVersion"] = format!("{}/v1", self.review.group).into();
        review["kind"] = self.review.kind.into();
        let spec = &review["spec"];
        match self.review.kind {
            "SelfSubjectReview" => {
                review["metadata"]["creationTimestamp"] =
                    whole_second(registry.store().now()).to_string().into();
                review["status"] = json!({"userInfo": user.to_json()});
                Ok(review)
            }
            "TokenReview" if spec["token"].as_str().is_none_or(str::is_empty) => {
                Err(ApiError::bad_request("token is required for TokenReview in authentication"))
            }
            "TokenReview" => Ok(token_review(review, registry)),
            "SelfSubjectRulesReview" if spec["namespace"].as_str().is_none_or(str::is_empty) => {
                Err(ApiError::bad_request("no namespace on request"))
            }
            "SelfSubjectRulesReview" => Ok(rules_review(review, is_read_only)),
            _ => {
                self.check_access_review(spec)?;
                Ok(access_review(review, is_read_only))
            }
        }
    }

    /// As a Kubernetes API server validates reviews of a user's access.
    fn check_access_review(&self, spec: &Value) -> Result<(), ApiError> {
        let mut errors = Vec::new();
        let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        match (resource.is_object(), other.is_object()) {
            (true, true) => {
                let text = |field: &str| other[field].as_str().unwrap_or_default().to_owned();
                let printed = json!({"Path": text("path"), "Verb": text("verb")}).to_string();
                let why = "cannot be specified in combination with resourceAttributes";
                errors.push(InvalidField::invalid("spec.nonResourceAttributes", &printed, why));
            }
            (false, false) => {
                let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                errors.push(InvalidField::invalid("spec.resourceAttributes", "null", why));
            }
            _ => {}
        }
        let has_user = spec["user"].as_str().is_some_and(|user| !user.is_empty())
            || spec["groups"].as_array().is_some_and(|groups| !groups.is_empty());
        if self.review.kind != "SelfSubjectAccessReview" && !has_user {
            let why = "at least one of user or group must be specified";
            errors.push(InvalidField::invalid("spec.user", "\"\"", why));
        }
        let namespace = resource["namespace"].as_str().unwrap_or_default();
        if errors.is_empty() && self.namespace.is_some_and(|own| own != namespace) {
            let value = format!("{namespace:?}");
            let why = "must match metadata.namespace";
            errors.push(InvalidField::invalid("spec.resourceAttributes.namespace", &value, why));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(ApiError::invalid_fields(self.review.group, "", "", &errors))
        }
    }
}

fn access_review(mut review: Value, is_read_only: bool) -> Value {
    let verb = review
        .pointer("/spec/resourceAttributes/verb")
        .or_else(|| review.pointer("/spec/nonResourceAttributes/verb"));
    let is_read = verb.and_then(Value::as_str).is_some_and(|verb| matches!(verb, "get" | "list" | "watch"));
    review["status"] = json!({"allowed": is_read || !is_read_only});
    review
}

fn rules_review(mut review: Value, is_read_only: bool) -> Value {
    let verbs = if is_read_only { json!(["get", "list", "watch"]) } else { json!(["*"]) };
    review["status"] = json!({
        "resourceRules": [{"verbs": verbs, "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": verbs, "nonResourceURLs": ["*"]}],
        "incomplete": false,
    });
    review
}

/// The tokens of service accounts are known. Of the server's own token a review does not say that it is valid.
fn token_review(mut review: Value, registry: &Registry) -> Value {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    review["status"] = match registry.user_of_token(token) {
        Some(user) => json!({"authenticated": true, "user": user.to_json(), "audiences": [ISSUER]}),
        None => json!({"user": {}, "error": "invalid bearer token"}),
    };
    review
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Moment;

    use super::*;
    use crate::memory_store::MemoryStore;

    fn answer(path: &str, body: Value, is_read_only: bool) -> Result<Value, ApiError> {
        let store = MemoryStore::new(Box::new(|| Moment::from_nanos(0)), "v1.36.4");
        let registry = Registry::new(Arc::new(store), 1);
        ReviewRequest::parse(path).unwrap().answer(body, &UserInfo::admin(), &registry, is_read_only)
    }

    fn allowed(verb: &str, is_read_only: bool) -> Value {
        let review = json!({"spec": {"resourceAttributes": {"verb": verb, "resource": "pods"}}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        answer(path, review, is_read_only).unwrap()["status"]["allowed"].clone()
    }

    #[test]
    fn a_read_only_server_allows_reading_only() {
        assert_eq!(allowed("list", true), true);
        assert_eq!(allowed("delete", true), false);
        assert_eq!(allowed("delete", false), true);
    }

    #[test]
    fn other_paths_are_no_reviews() {
        for path in [
            "/api/v1/pods",
            "/apis/authorization.k8s.io/v1/x",
            "/apis/authorization.k8s.io/v2/selfsubjectaccessreviews",
            "/apis/authorization.k8s.io/v1/localsubjectaccessreviews",
            "/apis/authorization.k8s.io/v1/namespaces/web/subjectaccessreviews",
        ] {
            assert!(ReviewRequest::parse(path).is_none(), "{path}");
        }
        let local = "/apis/authorization.k8s.io/v1/namespaces/web/localsubjectaccessreviews";
        assert!(ReviewRequest::parse(local).is_some());
    }

    /// The messages are those of kube-apiserver 1.36.
    #[test]
    fn invalid_reviews_are_refused() {
        let exactly_one = "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or \
            resourceAttributes must be specified";
        let no_user = "spec.user: Invalid value: \"\": at least one of user or group must be specified";
        let pods = json!({"verb": "get", "resource": "pods"});
        for (resource, spec, expected) in [
            ("selfsubjectaccessreviews", json!({}), exactly_one.to_owned()),
            ("subjectaccessreviews", json!({}), format!("[{exactly_one}, {no_user}]")),
            ("subjectaccessreviews", json!({"resourceAttributes": pods}), no_user.to_owned()),
            (
                "selfsubjectaccessreviews",
                json!({"resourceAttributes": pods, "nonResourceAttributes": {"path": "/"}}),
                "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/\",\"Verb\":\"\"}: cannot be specified in \
                 combination with resourceAttributes"
                    .to_owned(),
            ),
            (
                "namespaces/default/localsubjectaccessreviews",
                json!({"user": "a", "resourceAttributes": pods}),
                "spec.resourceAttributes.namespace: Invalid value: \"\": must match metadata.namespace".to_owned(),
            ),
        ] {
            let path = format!("/apis/authorization.k8s.io/v1/{resource}");
            let error = answer(&path, json!({"spec": spec}), false).unwrap_err().to_string();
            assert_eq!(error, format!(".authorization.k8s.io \"\" is invalid: {expected}"));
        }
        let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        assert_eq!(
            answer(rules, json!({"spec": {}}), false).unwrap_err().to_string(),
            "no namespace on request"
        );
        let token = "/apis/authentication.k8s.io/v1/tokenreviews";
        let error = answer(token, json!({"spec": {}}), false).unwrap_err().to_string();
        assert_eq!(error, "token is required for TokenReview in authentication");
        let own = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        assert_eq!(answer(own, json!({}), false).unwrap()["kind"], "SelfSubjectReview");
    }
}
