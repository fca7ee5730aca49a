//! What is registered: the adaptor, and the listener `amqp`.

use std::sync::Arc;

use framegate_adaptor_api::{
    AdaptorPlugin, DefaultListener, Mount, ProtocolPlugin, Serve, Session, SessionContext, inventory,
};

use crate::adaptor::Amqp;
use crate::headers::{self, ADAPTOR};
use crate::session::AmqpSession;
use crate::settings::Settings;

/// The port that every client knows.
const PORT: u16 = 5672;

fn open(context: &SessionContext) -> Box<dyn Session> {
    Box::new(AmqpSession::new(context))
}

inventory::submit! {
    AdaptorPlugin { name: ADAPTOR, build: || Arc::new(Amqp), headers: Some(headers::read) }
}

inventory::submit! {
    ProtocolPlugin {
        name: ADAPTOR,
        mounts: &[Mount { name: ADAPTOR, default: DefaultListener::Port(PORT), serve: Serve::Stream(open) }],
        check: |section| Settings::parse(section).map(|_| ()),
    }
}
