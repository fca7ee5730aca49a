//! The HTTP side: health and read-only lists, as queries to the broker. Never changes anything.
//!
//! | path | answer |
//! |---|---|
//! | `GET /health` | 200 `{"status":"ok"}`, or 503 `{"status":"stopping"}` or `{"status":"failed"}`; no login |
//! | `GET /api/queues`, `/api/exchanges`, `/api/bindings`, `/api/connections` | `{"queues":[..]}` and so on, objects as in the list commands |
//! | `GET /api/overview` | `{"serverName":..,"totals":{..}}` |

use axum::Router;
use axum::extract::{Query as QueryString, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use bytes::{BufMut as _, BytesMut};
use framegate_adaptor_api::{HttpContext, LoginError};
use framegate_broker::{BrokerError, ConnectionInfo, Query, Reply, Request};

use crate::commands::{put_binding, put_exchange, put_queue, put_stats};
use crate::errors::{Code, Failure};
use crate::json::Object;

/// The routes of the listener `messagex-http`.
pub(crate) fn router(context: &HttpContext) -> Router {
    let list = |query: Query| {
        get(
            move |State(context): State<HttpContext>, token: QueryString<AccessToken>, headers: HeaderMap| async move {
                answer(&context, &headers, token.0, query).await
            },
        )
    };
    Router::new()
        .route("/health", get(|State(context): State<HttpContext>| async move { health(&context) }))
        .route("/api/queues", list(Query::Queues))
        .route("/api/exchanges", list(Query::Exchanges))
        .route("/api/bindings", list(Query::Bindings { exchange: None, queue: None }))
        .route("/api/connections", list(Query::Connections))
        .route("/api/overview", list(Query::Stats))
        .with_state(context.clone())
}

/// Credentials in the query, for clients that cannot set a header.
#[derive(Debug, serde::Deserialize)]
struct AccessToken {
    access_token: Option<String>,
}

fn health(context: &HttpContext) -> Response {
    let (status, word) = if context.broker.failure().borrow().is_some() {
        (StatusCode::SERVICE_UNAVAILABLE, "failed")
    } else if *context.stopping.borrow() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping")
    } else {
        (StatusCode::OK, "ok")
    };
    json(status, |buffer| {
        let mut object = Object::begin(buffer);
        object.text("status", word);
        object.end();
    })
}

async fn answer(context: &HttpContext, headers: &HeaderMap, token: AccessToken, query: Query) -> Response {
    let client = match context.client(headers, token.access_token.as_deref()).await {
        Ok(client) => client,
        Err(error) => return refused(error),
    };
    match client.call(Request::Query(query)).await {
        Ok(reply) => json(StatusCode::OK, |buffer| put_reply(buffer, &reply)),
        Err(error) => failed(error),
    }
}

fn put_reply(buffer: &mut BytesMut, reply: &Reply) {
    match reply {
        Reply::Queues(queues) => put_list(buffer, "queues", queues, put_queue),
        Reply::Exchanges(exchanges) => put_list(buffer, "exchanges", exchanges, put_exchange),
        Reply::Bindings(bindings) => put_list(buffer, "bindings", bindings, put_binding),
        Reply::Connections(connections) => put_list(buffer, "connections", connections, put_connection),
        Reply::Stats(stats) => {
            let mut object = Object::begin(buffer);
            object.text("serverName", "framegate");
            put_stats(object.name("totals"), stats);
            object.end();
        }
        _ => buffer.put_slice(b"{}"),
    }
}

fn put_list<T>(buffer: &mut BytesMut, name: &str, items: &[T], put_item: impl Fn(&mut BytesMut, &T)) {
    let mut object = Object::begin(buffer);
    let list = object.name(name);
    list.put_u8(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            list.put_u8(b',');
        }
        put_item(list, item);
    }
    list.put_u8(b']');
    object.end();
}

fn put_connection(buffer: &mut BytesMut, connection: &ConnectionInfo) {
    let mut object = Object::begin(buffer);
    object.text("connectionId", &format!("c-{}", connection.id));
    object.text("name", &connection.label);
    object.text("username", &connection.user);
    object.text("vhost", &connection.vhost);
    object.number("consumerCount", connection.consumers);
    object.number("unackedCount", connection.unacked);
    object.end();
}

fn refused(error: LoginError) -> Response {
    if let LoginError::Broker(error) = error {
        return failed(error);
    }
    let mut response =
        failure(StatusCode::UNAUTHORIZED, &Failure::new(Code::Unauthorized, error.to_string()));
    let challenge = header::HeaderValue::from_static("Basic realm=\"framegate\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn failed(error: BrokerError) -> Response {
    let status = match error {
        BrokerError::Forbidden { .. } => StatusCode::FORBIDDEN,
        BrokerError::Limit { .. } => StatusCode::TOO_MANY_REQUESTS,
        BrokerError::Stopping | BrokerError::StorageFailed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    failure(status, &error.into())
}

fn failure(status: StatusCode, failure: &Failure) -> Response {
    json(status, |buffer| {
        let mut object = Object::begin(buffer);
        let mut error = Object::begin(object.name("error"));
        error.text("code", failure.code.as_str());
        error.text("message", &failure.message);
        error.end();
        object.end();
    })
}

fn json(status: StatusCode, body: impl FnOnce(&mut BytesMut)) -> Response {
    let mut buffer = BytesMut::new();
    body(&mut buffer);
    (status, [(header::CONTENT_TYPE, "application/json")], buffer.freeze()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use framegate_broker::{ConnectionId, Name, Stats};
    use serde_json::{Value, json};

    fn written(reply: &Reply) -> Value {
        let mut buffer = BytesMut::new();
        put_reply(&mut buffer, reply);
        serde_json::from_slice(&buffer).unwrap()
    }

    #[test]
    fn lists_and_totals_are_json() {
        assert_eq!(written(&Reply::Queues(vec![])), json!({"queues": []}));
        let connection = ConnectionInfo {
            id: ConnectionId(4),
            label: "amqp 127.0.0.1:9".to_owned(),
            user: Name::from_static("guest"),
            vhost: Name::from_static("/"),
            consumers: 1,
            unacked: 2,
        };
        let object = json!({"connectionId": "c-4", "name": "amqp 127.0.0.1:9", "username": "guest", "vhost": "/",
            "consumerCount": 1, "unackedCount": 2});
        let two = Reply::Connections(vec![connection.clone(), connection]);
        assert_eq!(written(&two), json!({"connections": [object, object]}));
        let totals = json!({"connections": 1, "exchanges": 0, "queues": 0, "consumers": 0, "messages": 5});
        let stats = Reply::Stats(Stats { connections: 1, ready: 2, unacked: 3, ..Stats::default() });
        assert_eq!(written(&stats), json!({"serverName": "framegate", "totals": totals}));
    }

    #[test]
    fn failures_have_a_status_and_a_code() {
        assert_eq!(refused(LoginError::Required).status(), StatusCode::UNAUTHORIZED);
        assert!(refused(LoginError::Refused).headers().contains_key(header::WWW_AUTHENTICATE));
        assert_eq!(
            refused(LoginError::Broker(BrokerError::Stopping)).status(),
            StatusCode::SERVICE_UNAVAILABLE
        );
        assert_eq!(failed(BrokerError::Limit { what: "x", max: 1 }).status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(failed(BrokerError::ConsumerExists).status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
