//! A route: its path and handler, and its description for OpenAPI.

use std::sync::Arc;

use axum::handler::Handler;
use axum::routing::{self, MethodRouter};

use super::AppState;

/// A route with its handler and its OpenAPI description.
pub(super) struct Route {
    pub(super) path: &'static str,
    pub(super) method: Method,
    pub(super) summary: &'static str,
    /// The status code of a successful response.
    pub(super) code: u16,
    /// The media type of the response.
    pub(super) media: &'static str,
    /// Its schema, if it is JSON.
    pub(super) schema: Option<&'static str>,
    pub(super) request: Option<RequestBody>,
    pub(super) parameters: Parameters,
    /// Errors are plain text, as the clients of other systems expect.
    pub(super) has_text_errors: bool,
    pub(super) handler: MethodRouter<Arc<AppState>>,
}

/// The body of a request.
#[derive(Clone, Copy)]
pub(super) struct RequestBody {
    pub(super) media: &'static str,
    /// Its schema, if it is JSON.
    pub(super) schema: Option<&'static str>,
    /// False if a request without a body is valid too.
    pub(super) is_required: bool,
}

/// The HTTP method.
#[derive(Clone, Copy)]
pub(super) enum Method {
    Get,
    Post,
    Delete,
}

/// Query parameters: names and descriptions.
pub(super) type Parameters = &'static [(&'static str, &'static str)];

/// The media type of plain text.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

// === impl Route ===

impl Route {
    pub(super) fn get<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<AppState>>,
        summary: &'static str,
    ) -> Route {
        Route::new(path, Method::Get, routing::get(handler), summary)
    }

    pub(super) fn post<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<AppState>>,
        summary: &'static str,
    ) -> Route {
        Route::new(path, Method::Post, routing::post(handler), summary)
    }

    pub(super) fn delete<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<AppState>>,
        summary: &'static str,
    ) -> Route {
        Route::new(path, Method::Delete, routing::delete(handler), summary)
    }

    /// A route for every method, documented as GET.
    pub(super) fn any<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<AppState>>,
        summary: &'static str,
    ) -> Route {
        Route::new(path, Method::Get, routing::any(handler), summary)
    }

    pub(super) fn new(
        path: &'static str,
        method: Method,
        handler: MethodRouter<Arc<AppState>>,
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
        Route { request: Some(RequestBody { media, schema, is_required: true }), ..self }
    }

    pub(super) fn optional_request(self, media: &'static str, schema: Option<&'static str>) -> Route {
        Route { request: Some(RequestBody { media, schema, is_required: false }), ..self }
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
    /// The method's name in OpenAPI.
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Get => "get",
            Method::Post => "post",
            Method::Delete => "delete",
        }
    }
}
