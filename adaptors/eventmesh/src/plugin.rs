//! What is registered: the adaptors `meshmessage` and `a2a`, and the listener `eventmesh`.

use std::sync::Arc;

use framegate_adaptor_api::{
    AdaptorPlugin, DefaultListener, Mount, ProtocolPlugin, Serve, Session, SessionContext, inventory,
};

use crate::a2a::A2a;
use crate::mesh::{self, MeshMessage};
use crate::session::EventMeshSession;
use crate::settings::Settings;

/// Port of the original's TCP listener.
const PORT: u16 = 10_000;

fn open(context: &SessionContext) -> Box<dyn Session> {
    Box::new(EventMeshSession::new(context))
}

inventory::submit! {
    AdaptorPlugin { name: mesh::NAME, build: || Arc::new(MeshMessage), headers: None }
}

inventory::submit! {
    AdaptorPlugin { name: "a2a", build: || Arc::new(A2a), headers: None }
}

inventory::submit! {
    ProtocolPlugin {
        name: "eventmesh",
        mounts: &[Mount { name: "eventmesh", default: DefaultListener::Port(PORT), serve: Serve::Stream(open) }],
        check: |section| Settings::parse(section).map(|_| ()),
    }
}
