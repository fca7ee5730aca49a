//! The console's files, embedded. They say nothing about the broker, so they are served to everybody.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
                      object-src 'none'";

/// Routes of the console.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(|| file("text/html; charset=utf-8", include_str!("../static/index.html"))))
        .route(
            "/console/app.js",
            get(|| file("text/javascript; charset=utf-8", include_str!("../static/app.js"))),
        )
        .route(
            "/console/style.css",
            get(|| file("text/css; charset=utf-8", include_str!("../static/style.css"))),
        )
        .route("/console/icon.svg", get(|| file("image/svg+xml", include_str!("../static/icon.svg"))))
}

async fn file(content_type: &'static str, text: &'static str) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}

#[cfg(test)]
mod tests {
    const PAGE: &str = include_str!("../static/index.html");
    const SCRIPT: &str = include_str!("../static/app.js");
    const STYLE: &str = include_str!("../static/style.css");
    const ROUTES: &str = include_str!("assets.rs");

    #[test]
    fn every_file_that_the_page_names_has_a_route() {
        let files: Vec<&str> =
            PAGE.split("\"/console/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(files.len(), 3);
        for name in files {
            assert!(ROUTES.contains(&format!("\"/console/{name}\"")), "{name}");
        }
    }

    #[test]
    fn every_element_that_the_script_names_is_on_the_page() {
        let literal =
            SCRIPT.split("byId(\"").skip(1).filter_map(|rest| rest.split_once('"')).map(|(id, _)| id);
        let ids: Vec<&str> = literal.chain(["listeners", "connections", "queues", "topics"]).collect();
        assert!(ids.len() > 10);
        for id in ids {
            assert!(PAGE.contains(&format!("id=\"{id}\"")), "{id}");
        }
        for feed in ["sse", "ws"] {
            for part in ["state", "toggle", "count", "gaps", "reconnects", "cursor", "events"] {
                assert!(PAGE.contains(&format!("id=\"{feed}-{part}\"")), "{feed}-{part}");
            }
        }
    }

    #[test]
    fn every_field_has_a_label() {
        for tag in ["<input ", "<textarea ", "<select "] {
            for field in PAGE.split(tag).skip(1) {
                let id = field.split("id=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
                assert!(PAGE.contains(&format!("for=\"{id}\"")), "{id}");
            }
        }
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_is_inline() {
        for text in [PAGE, SCRIPT, STYLE] {
            assert!(!text.contains("http://") && !text.contains("https://"));
        }
        assert!(!PAGE.contains("<style") && !PAGE.contains(" style=") && !PAGE.contains(" onclick="));
        assert!(PAGE.contains("<script src=\"/console/app.js\" defer></script>"));
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains(".style."));
    }
}
