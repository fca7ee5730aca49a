//! The whole binary over real sockets. One test binary, so that it links once.

mod amqp;
mod amqp_captures;
mod amqp_crossing;
mod amqp_errors;
mod amqp_limits;
mod amqp_streams;
mod backpressure;
mod cloudevents;
mod command_line;
mod compliance;
mod coverage;
mod eventmesh;
mod events;
mod exchanges;
mod holding;
mod hostile;
mod matrix;
mod messagex;
mod recovery;
mod semantics;
mod shutdown;
mod sse;
mod storage;
mod toy;
mod websocket;
