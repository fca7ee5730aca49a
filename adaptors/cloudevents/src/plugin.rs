//! What this crate registers: the adaptor, and the protocol with its routes and its WebSocket on the HTTP listener.

use std::sync::Arc;

use framegate_adaptor_api::{
    AdaptorPlugin, CounterPlugin, DefaultListener, Mount, ProtocolPlugin, Serve, inventory,
};
use serde_json::Value;

use crate::adaptor::{self, CloudEventsAdaptor};
use crate::settings::Settings;
use crate::{http, metrics, webhook, ws};

const SHARED: DefaultListener = DefaultListener::Shared("http");

inventory::submit! {
    AdaptorPlugin {
        name: adaptor::NAME,
        build: || Arc::new(CloudEventsAdaptor),
        headers: Some(adaptor::headers),
    }
}

inventory::submit! {
    CounterPlugin { name: "cloudevents", read: || metrics::counters().snapshot().to_vec() }
}

inventory::submit! {
    CounterPlugin { name: "cloudevents", read: webhook::counters }
}

inventory::submit! {
    ProtocolPlugin {
        name: "cloudevents",
        mounts: &[
            Mount { name: "cloudevents", default: SHARED, serve: Serve::Http(http::router) },
            Mount {
                name: "cloudevents-ws",
                default: SHARED,
                serve: Serve::WebSocket { path: ws::PATH, subprotocols: ws::SUBPROTOCOLS, open: ws::open },
            },
        ],
        check,
    }
}

fn check(section: &Value) -> Result<(), String> {
    Settings::read(section).map(drop)
}
