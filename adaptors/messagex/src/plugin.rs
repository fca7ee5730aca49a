//! What is registered: the adaptor, and the listeners `messagex` and `messagex-http`.

use std::sync::Arc;

use framegate_adaptor_api::{
    AdaptorPlugin, DefaultListener, Mount, ProtocolPlugin, Serve, Session, SessionContext, inventory,
};

use crate::adaptor::Messagex;
use crate::headers::{self, ADAPTOR};
use crate::http;
use crate::session::MessagexSession;
use crate::settings::Settings;

/// Port of the original broker's TCP listener.
const PORT: u16 = 5678;
/// Port of its HTTP side.
const HTTP_PORT: u16 = 3000;

fn open(context: &SessionContext) -> Box<dyn Session> {
    Box::new(MessagexSession::new(context))
}

inventory::submit! {
    AdaptorPlugin { name: ADAPTOR, build: || Arc::new(Messagex), headers: Some(headers::read) }
}

inventory::submit! {
    ProtocolPlugin {
        name: ADAPTOR,
        mounts: &[
            Mount { name: ADAPTOR, default: DefaultListener::Port(PORT), serve: Serve::Stream(open) },
            Mount {
                name: "messagex-http",
                default: DefaultListener::Off(HTTP_PORT),
                serve: Serve::Http(http::router),
            },
        ],
        check: |section| Settings::parse(section).map(|_| ()),
    }
}
