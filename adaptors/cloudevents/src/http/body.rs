//! Reads a request body within its limit, the process-wide budget and a time without progress. Never longer than that.

use std::future::poll_fn;
use std::pin::Pin;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use framegate_adaptor_api::UnfinishedBudget;
use http_body::Body as _;

use super::problem::Problem;
use super::publish::too_large;
use crate::limits::{BODY_PROGRESS, DRAIN_BYTES_MAX, DRAIN_TIME};

/// Reads a body of at most `bytes_max` bytes. One that announces more is refused before a byte is read, so that a client
/// that waits for `100 Continue` sends nothing.
///
/// # Errors
/// 413, 408 without progress, 400 when the client breaks off.
pub(crate) async fn read(
    headers: &HeaderMap,
    mut body: Body,
    bytes_max: usize,
    budget: &UnfinishedBudget,
) -> Result<Bytes, Problem> {
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if let Some(bytes) = announced.filter(|bytes| *bytes > bytes_max) {
        if !headers.contains_key(header::EXPECT) {
            drain(body).await;
        }
        return Err(too_large(bytes, bytes_max));
    }
    let mut held = budget.reservation();
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    loop {
        let progress = async {
            budget.room().await;
            poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        };
        let frame = match tokio::time::timeout(BODY_PROGRESS, progress).await {
            Err(_) => return Err(Problem::new(408, "timeout", "the request body made no progress")),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(Problem::new(400, "bad_request", "the request body broke off")),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        let bytes = first.len() + rest.len() + data.len();
        if bytes > bytes_max {
            drain(body).await;
            return Err(too_large(bytes, bytes_max));
        }
        held.set(bytes);
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// Reads on for a while and forgets it: a client that is still sending when the connection closes would see a reset in
/// place of the refusal.
async fn drain(mut body: Body) {
    let mut left = DRAIN_BYTES_MAX;
    let read = async {
        while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    // out of time: the client has to live with the reset
    let _ = tokio::time::timeout(DRAIN_TIME, read).await;
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn chunks(parts: &[&'static str]) -> Body {
        let parts: Vec<Result<Bytes, std::convert::Infallible>> =
            parts.iter().map(|part| Ok(Bytes::from_static(part.as_bytes()))).collect();
        Body::from_stream(stream::iter(parts))
    }

    #[tokio::test]
    async fn chunks_are_joined_and_the_budget_is_given_back() {
        let budget = UnfinishedBudget::new(100);
        let read = read(&HeaderMap::new(), chunks(&["ab", "", "cd", "e"]), 5, &budget).await;
        assert_eq!(read.unwrap(), "abcde");
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn too_much_is_refused_whether_announced_or_not() {
        let budget = UnfinishedBudget::new(100);
        assert_eq!(
            read(&HeaderMap::new(), chunks(&["abc", "def"]), 5, &budget).await.unwrap_err().status,
            413
        );
        let announced = [(header::CONTENT_LENGTH, "6".parse().unwrap())].into_iter().collect();
        assert_eq!(read(&announced, chunks(&[]), 5, &budget).await.unwrap_err().status, 413);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_is_given_up() {
        let budget = UnfinishedBudget::new(100);
        let body = Body::from_stream(stream::pending::<Result<Bytes, std::convert::Infallible>>());
        assert_eq!(read(&HeaderMap::new(), body, 5, &budget).await.unwrap_err().status, 408);
    }
}
