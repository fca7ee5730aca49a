//! The commands of packages: name on the wire, number of the enum behind it, and what answers what (reference
//! `eventmesh.md` 3.3). Never acts on one.

macro_rules! commands {
    ($($name:ident = $code:literal $text:literal,)*) => {
        /// A command.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Command { $(#[doc = $text] $name = $code,)* }

        impl Command {
            /// Every command, in order of its number.
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name on the wire.
            pub(crate) fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// By the name on the wire.
            pub(crate) fn named(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }

            /// By its number, which some clients write instead.
            pub(crate) fn numbered(code: u64) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }
        }
    };
}

commands! {
    HeartbeatRequest = 0 "HEARTBEAT_REQUEST",
    HeartbeatResponse = 1 "HEARTBEAT_RESPONSE",
    HelloRequest = 2 "HELLO_REQUEST",
    HelloResponse = 3 "HELLO_RESPONSE",
    ClientGoodbyeRequest = 4 "CLIENT_GOODBYE_REQUEST",
    ClientGoodbyeResponse = 5 "CLIENT_GOODBYE_RESPONSE",
    ServerGoodbyeRequest = 6 "SERVER_GOODBYE_REQUEST",
    ServerGoodbyeResponse = 7 "SERVER_GOODBYE_RESPONSE",
    SubscribeRequest = 8 "SUBSCRIBE_REQUEST",
    SubscribeResponse = 9 "SUBSCRIBE_RESPONSE",
    UnsubscribeRequest = 10 "UNSUBSCRIBE_REQUEST",
    UnsubscribeResponse = 11 "UNSUBSCRIBE_RESPONSE",
    ListenRequest = 12 "LISTEN_REQUEST",
    ListenResponse = 13 "LISTEN_RESPONSE",
    RequestToServer = 14 "REQUEST_TO_SERVER",
    RequestToClient = 15 "REQUEST_TO_CLIENT",
    RequestToClientAck = 16 "REQUEST_TO_CLIENT_ACK",
    ResponseToServer = 17 "RESPONSE_TO_SERVER",
    ResponseToClient = 18 "RESPONSE_TO_CLIENT",
    ResponseToClientAck = 19 "RESPONSE_TO_CLIENT_ACK",
    AsyncMessageToServer = 20 "ASYNC_MESSAGE_TO_SERVER",
    AsyncMessageToServerAck = 21 "ASYNC_MESSAGE_TO_SERVER_ACK",
    AsyncMessageToClient = 22 "ASYNC_MESSAGE_TO_CLIENT",
    AsyncMessageToClientAck = 23 "ASYNC_MESSAGE_TO_CLIENT_ACK",
    BroadcastMessageToServer = 24 "BROADCAST_MESSAGE_TO_SERVER",
    BroadcastMessageToServerAck = 25 "BROADCAST_MESSAGE_TO_SERVER_ACK",
    BroadcastMessageToClient = 26 "BROADCAST_MESSAGE_TO_CLIENT",
    BroadcastMessageToClientAck = 27 "BROADCAST_MESSAGE_TO_CLIENT_ACK",
    SysLogToLogserver = 28 "SYS_LOG_TO_LOGSERVER",
    TraceLogToLogserver = 29 "TRACE_LOG_TO_LOGSERVER",
    RedirectToClient = 30 "REDIRECT_TO_CLIENT",
    RegisterRequest = 31 "REGISTER_REQUEST",
    RegisterResponse = 32 "REGISTER_RESPONSE",
    UnregisterRequest = 33 "UNREGISTER_REQUEST",
    UnregisterResponse = 34 "UNREGISTER_RESPONSE",
    RecommendRequest = 35 "RECOMMEND_REQUEST",
    RecommendResponse = 36 "RECOMMEND_RESPONSE",
}

impl Command {
    /// What answers a request of a client; None: it gets no answer.
    pub(crate) fn answer(self) -> Option<Self> {
        Some(match self {
            Self::HeartbeatRequest => Self::HeartbeatResponse,
            Self::HelloRequest => Self::HelloResponse,
            Self::ClientGoodbyeRequest => Self::ClientGoodbyeResponse,
            Self::SubscribeRequest => Self::SubscribeResponse,
            Self::UnsubscribeRequest => Self::UnsubscribeResponse,
            Self::ListenRequest => Self::ListenResponse,
            Self::RequestToServer => Self::ResponseToClient,
            Self::AsyncMessageToServer => Self::AsyncMessageToServerAck,
            Self::BroadcastMessageToServer => Self::BroadcastMessageToServerAck,
            Self::RecommendRequest => Self::RecommendResponse,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_and_by_its_number() {
        assert_eq!(Command::ALL.len(), 37);
        for (number, command) in (0..).zip(Command::ALL) {
            assert_eq!(Command::named(command.as_str()), Some(*command));
            assert_eq!(Command::numbered(number), Some(*command));
        }
        assert_eq!(Command::named("hello_request"), None);
        assert_eq!(Command::numbered(37), None);
    }
}
