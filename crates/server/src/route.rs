//! A route: where it is, what it answers, and who answers it.

use std::sync::Arc;

use axum::handler::Handler;
use axum::routing::{self, MethodRouter};

use super::App;

/// A way to ask, and what the answer is.
pub(super) struct Route {
    pub(super) path: &'static str,
    pub(super) method: Method,
    pub(super) summary: &'static str,
    /// The code of an answer that is one.
    pub(super) code: u16,
    /// What the answer is made of.
    pub(super) media: &'static str,
    /// Its schema, if it is JSON.
    pub(super) schema: Option<&'static str>,
    /// What the question brings: its media type and, if it is JSON, its schema.
    pub(super) request: Option<(&'static str, Option<&'static str>)>,
    pub(super) parameters: Parameters,
    /// Errors are plain text, as the clients of other systems expect.
    pub(super) has_text_errors: bool,
    pub(super) handler: MethodRouter<Arc<App>>,
}

/// How it is asked.
#[derive(Clone, Copy)]
pub(super) enum Method {
    Get,
    Post,
    Delete,
}

/// Parameters of the question, by name, and what they mean.
pub(super) type Parameters = &'static [(&'static str, &'static str)];

/// Plain text.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

// === impl Route ===

impl Route {
    pub(super) fn get<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<App>>,
        summary: &'static str,
    ) -> Route {
        Route::new(path, Method::Get, routing::get(handler), summary)
    }

    pub(super) fn post<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<App>>,
        summary: &'static str,
    ) -> Route {
        Route::new(path, Method::Post, routing::post(handler), summary)
    }

    pub(super) fn delete<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<App>>,
        summary: &'static str,
    ) -> Route {
        Route::new(path, Method::Delete, routing::delete(handler), summary)
    }

    /// By whatever method; it is documented as one that reads.
    pub(super) fn any<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<App>>,
        summary: &'static str,
    ) -> Route {
        Route::new(path, Method::Get, routing::any(handler), summary)
    }

    pub(super) fn new(
        path: &'static str,
        method: Method,
        handler: MethodRouter<Arc<App>>,
        summary: &'static str,
    ) -> Route {
        Route {
            path,
            method,
            summary,
            code: 200,
            media: TEXT,
            schema: None,
            request: None,
            parameters: &[],
            has_text_errors: false,
            handler,
        }
    }

    pub(super) fn code(self, code: u16) -> Route {
        Route { code, ..self }
    }

    pub(super) fn media(self, media: &'static str) -> Route {
        Route { media, ..self }
    }

    pub(super) fn json(self, schema: &'static str) -> Route {
        Route { media: "application/json", schema: Some(schema), ..self }
    }

    pub(super) fn request(self, media: &'static str, schema: Option<&'static str>) -> Route {
        Route { request: Some((media, schema)), ..self }
    }

    pub(super) fn parameters(self, parameters: Parameters) -> Route {
        Route { parameters, ..self }
    }

    pub(super) fn text_errors(self) -> Route {
        Route { has_text_errors: true, ..self }
    }
}

// === impl Method ===

impl Method {
    /// As OpenAPI names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Get => "get",
            Method::Post => "post",
            Method::Delete => "delete",
        }
    }
}
