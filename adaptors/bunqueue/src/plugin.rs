//! What is registered: the adaptor, and the listener `bunqueue`.

use std::sync::Arc;

use framegate_adaptor_api::{
    AdaptorPlugin, DefaultListener, Mount, ProtocolPlugin, Serve, Session, SessionContext, inventory,
};

use crate::adaptor::{ADAPTOR, Bunqueue};
use crate::session::BunqueueSession;

/// Port of the original server.
const PORT: u16 = 6789;

fn open(context: &SessionContext) -> Box<dyn Session> {
    Box::new(BunqueueSession::new(context))
}

inventory::submit! {
    AdaptorPlugin { name: ADAPTOR, build: || Arc::new(Bunqueue), headers: None }
}

inventory::submit! {
    ProtocolPlugin {
        name: ADAPTOR,
        mounts: &[Mount { name: ADAPTOR, default: DefaultListener::Port(PORT), serve: Serve::Stream(open) }],
        check: |section| if section.is_null() { Ok(()) } else { Err("bunqueue takes no keys".to_owned()) },
    }
}
