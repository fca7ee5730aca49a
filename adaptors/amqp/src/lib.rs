//! AMQP 0-9-1 with RabbitMQ's extensions.

mod adaptor;
mod arguments;
mod codec;
mod deaths;
mod failure;
mod headers;
mod incoming;
mod limits;
mod outgoing;
mod plugin;
mod session;
mod settings;
