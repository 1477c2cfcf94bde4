//! The user of a request: of its token, or the one that it impersonates.

use axum::http::HeaderMap;
use serde_json::{Map, Value, json};

use crate::request_info::percent_decoded;
use crate::status::ApiError;

/// A user, as reviews and audit events show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserInfo {
    pub(crate) username: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    /// Other facts about the user, by name.
    pub(crate) extra: Vec<(String, Vec<String>)>,
}

/// The groups of those that have been authenticated, and of the others.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

impl UserInfo {
    /// The user that every client with the server's own token is.
    pub(crate) fn admin() -> UserInfo {
        UserInfo {
            username: "kinescope:admin".to_owned(),
            uid: None,
            groups: vec!["system:masters".to_owned(), AUTHENTICATED.to_owned()],
            extra: Vec::new(),
        }
    }

    /// The user as whom a request wants to be treated; `None` if it is content with its own.
    pub(crate) fn impersonated(headers: &HeaderMap) -> Result<Option<UserInfo>, ApiError> {
        let all = |name: &str| -> Vec<String> {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.filter(|value| !value.is_empty()).map(str::to_owned).collect()
        };
        let (username, uid) = (all("impersonate-user").pop(), all("impersonate-uid").pop());
        let mut groups = all("impersonate-group");
        let extra: Vec<(String, Vec<String>)> = headers
            .keys()
            .filter_map(|header| {
                let name = percent_decoded(header.as_str().strip_prefix("impersonate-extra-")?)?;
                Some((name, all(header.as_str())))
            })
            .collect();
        let Some(username) = username else {
            if uid.is_none() && groups.is_empty() && extra.is_empty() {
                return Ok(None);
            }
            let why = "groups, a uid or extra fields are requested without impersonating a user";
            return Err(ApiError::bad_request(why));
        };
        if groups.is_empty()
            && let Some((namespace, _)) =
                username.strip_prefix(SERVICE_ACCOUNT_PREFIX).and_then(|account| account.split_once(':'))
        {
            groups = service_account_groups(namespace);
        }
        let of_all = if username == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !groups.iter().any(|group| matches!(group.as_str(), AUTHENTICATED | UNAUTHENTICATED)) {
            groups.push(of_all.to_owned());
        }
        Ok(Some(UserInfo { username, uid, groups, extra }))
    }

    /// The `UserInfo` of `authentication.k8s.io/v1`.
    pub(crate) fn to_json(&self) -> Value {
        let mut user = json!({"username": self.username, "groups": self.groups});
        if let Some(uid) = &self.uid {
            user["uid"] = uid.as_str().into();
        }
        if !self.extra.is_empty() {
            let extra = self.extra.iter().map(|(name, values)| (name.clone(), json!(values)));
            user["extra"] = extra.collect::<Map<String, Value>>().into();
        }
        user
    }
}

/// The groups of the service accounts of a namespace.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let entry = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        headers.iter().map(entry).collect()
    }

    /// The rules of kube-apiserver's impersonation filter: a user without groups gets those of its service account, and every
    /// user one of the two groups of all.
    #[test]
    fn a_request_may_be_that_of_another_user() {
        assert_eq!(UserInfo::impersonated(&headers(&[])).unwrap(), None);
        let joe = [
            ("impersonate-user", "joe"),
            ("impersonate-group", "devs"),
            ("impersonate-group", "ops"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-example.com%2fteam", "a"),
        ];
        let user = UserInfo::impersonated(&headers(&joe)).unwrap().unwrap();
        assert_eq!(
            user.to_json(),
            json!({
                "username": "joe", "uid": "7", "groups": ["devs", "ops", "system:authenticated"],
                "extra": {"example.com/team": ["a"]},
            })
        );
        let account = [("impersonate-user", "system:serviceaccount:ci:builder")];
        let groups = ["system:serviceaccounts", "system:serviceaccounts:ci", "system:authenticated"];
        assert_eq!(UserInfo::impersonated(&headers(&account)).unwrap().unwrap().groups, groups);
        let anonymous = [("impersonate-user", "system:anonymous")];
        let user = UserInfo::impersonated(&headers(&anonymous)).unwrap().unwrap();
        assert_eq!(user.groups, ["system:unauthenticated"]);
        assert!(UserInfo::impersonated(&headers(&[("impersonate-group", "devs")])).is_err());
    }
}
