//! The user of a request.

use serde_json::{Map, Value, json};

/// A user, as reviews and audit events show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserInfo {
    pub(crate) username: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    /// Other facts about the user, by name.
    pub(crate) extra: Vec<(&'static str, String)>,
}

impl UserInfo {
    /// The user that every client with the server's own token is.
    pub(crate) fn admin() -> UserInfo {
        UserInfo {
            username: "kinescope:admin".to_owned(),
            uid: None,
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
            extra: Vec::new(),
        }
    }

    /// The `UserInfo` of `authentication.k8s.io/v1`.
    pub(crate) fn to_json(&self) -> Value {
        let mut user = json!({"username": self.username, "groups": self.groups});
        if let Some(uid) = &self.uid {
            user["uid"] = uid.as_str().into();
        }
        if !self.extra.is_empty() {
            let extra = self.extra.iter().map(|(name, value)| ((*name).to_owned(), json!([value])));
            user["extra"] = extra.collect::<Map<String, Value>>().into();
        }
        user
    }
}
