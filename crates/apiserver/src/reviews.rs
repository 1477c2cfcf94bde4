//! Reviews of what a client may do, and of who it is. Everyone with the token may do everything that the server does.

use serde_json::{Value, json};

/// The user that every client with the token is.
pub(crate) const USER: &str = "kinescope:admin";
pub(crate) const GROUPS: [&str; 2] = ["system:masters", "system:authenticated"];

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
    const fn new(group: &'static str, plural: &'static str, kind: &'static str, namespaced: bool) -> Review {
        Review { group, plural, kind, namespaced }
    }
}

/// The answer to a review; `None` if the path is not that of one.
pub(crate) fn answer(path: &str, review: Value, is_read_only: bool) -> Option<Value> {
    let (group, resource) = path.strip_prefix("/apis/")?.split_once('/')?;
    let resource = resource.strip_prefix("v1/")?;
    let reviewed = match (group, resource) {
        ("authorization.k8s.io", "selfsubjectaccessreviews" | "subjectaccessreviews") => {
            access_review(review, is_read_only)
        }
        ("authorization.k8s.io", "selfsubjectrulesreviews") => rules_review(review, is_read_only),
        ("authentication.k8s.io", "selfsubjectreviews") => subject_review(review),
        ("authentication.k8s.io", "tokenreviews") => token_review(review),
        ("authorization.k8s.io", resource) => {
            // `namespaces/NAME/localsubjectaccessreviews`
            let (_, resource) = resource.strip_prefix("namespaces/")?.split_once('/')?;
            (resource == "localsubjectaccessreviews").then(|| access_review(review, is_read_only))?
        }
        _ => return None,
    };
    Some(reviewed)
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

fn subject_review(mut review: Value) -> Value {
    review["status"] = json!({"userInfo": {"username": USER, "groups": GROUPS}});
    review
}

/// No token but the client's own is known, and that one is not compared: the review says that it is not authenticated.
fn token_review(mut review: Value) -> Value {
    review["status"] =
        json!({"authenticated": false, "user": {}, "error": "this server knows no other tokens"});
    review
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            assert_eq!(answer(path, json!({}), false), None, "{path}");
        }
        let local = "/apis/authorization.k8s.io/v1/namespaces/web/localsubjectaccessreviews";
        assert!(answer(local, json!({}), false).is_some());
    }
}
