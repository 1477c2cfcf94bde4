//! The objects of some kinds at present, listed once and not watched.

use std::sync::Arc;

use kubernetes::change_filter::sanitize;
use model::{Kind, Moment, Object};
use serde::Deserialize;
use serde_json::Value;

use crate::connection::Connection;
use crate::kinds::{ServedKind, discover};
use crate::list_watch::RequestFailure;
use crate::url::percent_encode;
use crate::{Error, Result};

/// The objects of a listing.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The objects, kind by kind, without what a recorder must not write.
    pub objects: Vec<Object>,
    /// The kinds that the server does not have.
    pub missing: Vec<Kind>,
    /// The server's time after the last list.
    pub time: Option<Moment>,
}

/// A page of a list.
#[derive(Deserialize)]
struct ListPage {
    #[serde(default)]
    metadata: PageMetadata,
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue", default)]
    continue_token: Option<String>,
}

const JSON: &str = "application/json";
const PAGE_SIZE: u32 = 500;

impl Connection {
    /// Lists all objects of these kinds. Secrets are never listed.
    pub async fn list(&self, kinds: &[Kind]) -> Result<Listing> {
        let served = discover(self).await;
        let served = served.map_err(|failure| Error::Server { doing: "list the resource types", failure })?;
        let mut listing = Listing::default();
        for kind in kinds {
            let found = served.iter().find(|candidate| candidate.kind == *kind && !candidate.is_secret());
            let Some(found) = found else {
                listing.missing.push(kind.clone());
                continue;
            };
            let listed = self.list_kind(found, &mut listing.objects).await;
            listed.map_err(|failure| Error::Server { doing: "list the objects", failure })?;
        }
        listing.time = self.server_time().map(|(time, _)| time);
        Ok(listing)
    }

    async fn list_kind(
        &self,
        served: &ServedKind,
        objects: &mut Vec<Object>,
    ) -> std::result::Result<(), RequestFailure> {
        let (path, api_version): (String, Arc<str>) = (served.path(None), served.api_version().into());
        let unreadable = |why: String| {
            RequestFailure::from_message(format!("unreadable list of {}: {why}", served.plural))
        };
        let mut continue_token = String::new();
        loop {
            let page = format!("{path}?limit={PAGE_SIZE}&continue={}", percent_encode(&continue_token));
            let page: ListPage = serde_json::from_slice(&self.get(&page, JSON).await?)
                .map_err(|error| unreadable(error.to_string()))?;
            for mut item in page.items.unwrap_or_default() {
                // List items carry no kind; only the envelope does.
                item["apiVersion"] = Value::from(&*api_version);
                item["kind"] = Value::from(&*served.kind.kind);
                let object =
                    Object::parse(&item.to_string()).map_err(|error| unreadable(error.to_string()))?;
                objects.extend(sanitize(object, &served.kind, None));
            }
            match page.metadata.continue_token {
                Some(token) if !token.is_empty() => continue_token = token,
                _ => return Ok(()),
            }
        }
    }
}
