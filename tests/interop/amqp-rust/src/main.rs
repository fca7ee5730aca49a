//! What applications of lapin do, one connection for each check; prints the totals that the caller reads.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use futures_lite::StreamExt;
use lapin::message::Delivery;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldArray, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn equal<T: PartialEq + std::fmt::Debug>(got: T, wanted: T) -> Outcome {
    if got == wanted { Ok(()) } else { Err(format!("got {got:?}, expected {wanted:?}").into()) }
}

async fn connect() -> Result<Connection, lapin::Error> {
    let address = std::env::var("FRAMEGATE_AMQP").unwrap_or_default();
    Connection::connect(&format!("amqp://guest:guest@{address}/%2f"), ConnectionProperties::default()).await
}

async fn queue(channel: &Channel, arguments: FieldTable) -> Result<String, lapin::Error> {
    let options = QueueDeclareOptions { exclusive: true, ..Default::default() };
    Ok(channel.queue_declare("".into(), options, arguments).await?.name().to_string())
}

async fn put(channel: &Channel, exchange: &str, key: &str, body: &[u8], properties: BasicProperties) -> Result<Confirmation, lapin::Error> {
    channel.basic_publish(exchange.into(), key.into(), BasicPublishOptions { mandatory: true, ..Default::default() }, body, properties).await?.await
}

async fn take(channel: &Channel, queue: &str) -> Result<Delivery, Box<dyn Error + Send + Sync>> {
    for _ in 0..300 {
        if let Some(got) = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await? {
            return Ok(got.delivery);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("nothing came to {queue}").into())
}

fn arguments(pairs: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in pairs {
        table.insert((*key).into(), value.clone());
    }
    table
}

async fn confirms_and_consumes(channel: Channel) -> Outcome {
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let queue = queue(&channel, FieldTable::default()).await?;
    channel.basic_qos(20, BasicQosOptions::default()).await?;
    let mut consumer =
        channel.basic_consume(queue.as_str().into(), "".into(), BasicConsumeOptions::default(), FieldTable::default()).await?;
    let mut confirms = Vec::new();
    for n in 0..300_u32 {
        let properties = BasicProperties::default().with_delivery_mode(2);
        confirms.push(channel.basic_publish("".into(), queue.as_str().into(), BasicPublishOptions::default(), &n.to_be_bytes(), properties).await?);
    }
    for confirm in confirms {
        equal(matches!(confirm.await?, Confirmation::Ack(_)), true)?;
    }
    for n in 0..300_u32 {
        let delivery = consumer.next().await.ok_or("the consumer ended")??;
        equal(delivery.data.to_vec(), n.to_be_bytes().to_vec())?;
        delivery.ack(BasicAckOptions::default()).await?;
    }
    Ok(())
}

async fn header_types(channel: Channel) -> Outcome {
    let queue = queue(&channel, FieldTable::default()).await?;
    let mut list = FieldArray::default();
    list.push(AMQPValue::LongInt(1));
    list.push(AMQPValue::ShortShortUInt(2));
    let headers = arguments(&[
        ("a", AMQPValue::ShortShortInt(-3)),
        ("b", AMQPValue::ShortShortUInt(250)),
        ("c", AMQPValue::ShortInt(-300)),
        ("d", AMQPValue::LongInt(-70_000)),
        ("e", AMQPValue::LongLongInt(1 << 40)),
        ("f", AMQPValue::Float(1.5)),
        ("g", AMQPValue::Double(-2.25)),
        ("h", AMQPValue::Boolean(true)),
        ("i", AMQPValue::LongString("text".into())),
        ("j", AMQPValue::Timestamp(1_700_000_000)),
        ("k", AMQPValue::Void),
        ("l", AMQPValue::FieldArray(list)),
        ("m", AMQPValue::FieldTable(arguments(&[("deep", AMQPValue::LongUInt(7))]))),
        ("n", AMQPValue::ByteArray(vec![0, 255].into())),
        ("o", AMQPValue::LongUInt(4_000_000_000)),
        ("p", AMQPValue::ShortUInt(60_000)),
    ]);
    let sent = BasicProperties::default().with_headers(headers).with_message_id("m".into()).with_priority(3).with_timestamp(1_700_000_000);
    put(&channel, "", &queue, b"x", sent.clone()).await?;
    equal(take(&channel, &queue).await?.properties, sent)
}

async fn returns_and_nacks(channel: Channel) -> Outcome {
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let Confirmation::Ack(Some(returned)) = put(&channel, "", "nobody-listens", b"x", BasicProperties::default()).await? else {
        return Err("a mandatory message without a queue did not come back".into());
    };
    equal((returned.reply_code, returned.reply_text.to_string()), (312, "NO_ROUTE".to_owned()))?;
    let full = arguments(&[("x-max-length", AMQPValue::LongInt(1)), ("x-overflow", AMQPValue::LongString("reject-publish".into()))]);
    let queue = queue(&channel, full).await?;
    equal(matches!(put(&channel, "", &queue, b"1", BasicProperties::default()).await?, Confirmation::Ack(None)), true)?;
    equal(matches!(put(&channel, "", &queue, b"2", BasicProperties::default()).await?, Confirmation::Nack(_)), true)
}

async fn exchanges(channel: Channel) -> Outcome {
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    for (name, kind, pattern, key) in
        [("lapin-d", ExchangeKind::Direct, "k", "k"), ("lapin-f", ExchangeKind::Fanout, "", "any"), ("lapin-t", ExchangeKind::Topic, "a.*.#", "a.b.c")]
    {
        channel.exchange_declare(name.into(), kind, ExchangeDeclareOptions::default(), FieldTable::default()).await?;
        let queue = queue(&channel, FieldTable::default()).await?;
        channel.queue_bind(queue.as_str().into(), name.into(), pattern.into(), QueueBindOptions::default(), FieldTable::default()).await?;
        put(&channel, name, key, b"x", BasicProperties::default()).await?;
        let got = take(&channel, &queue).await?;
        equal((got.exchange.to_string(), got.routing_key.to_string()), (name.to_owned(), key.to_owned()))?;
        channel.exchange_delete(name.into(), ExchangeDeleteOptions::default()).await?;
    }
    Ok(())
}

async fn refusal_closes_the_channel(channel: Channel) -> Outcome {
    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    let Err(error) = channel.queue_declare("lapin-missing".into(), passive, FieldTable::default()).await else {
        return Err("there is no such queue".into());
    };
    equal(error.to_string().contains("NOT_FOUND - no queue 'lapin-missing' in vhost '/'"), true)
}

async fn dead_letters(channel: Channel) -> Outcome {
    let dead = queue(&channel, FieldTable::default()).await?;
    let to_dead = arguments(&[
        ("x-dead-letter-exchange", AMQPValue::LongString("".into())),
        ("x-dead-letter-routing-key", AMQPValue::LongString(dead.as_str().into())),
        ("x-message-ttl", AMQPValue::LongInt(20)),
    ]);
    let queue = queue(&channel, to_dead).await?;
    put(&channel, "", &queue, b"x", BasicProperties::default()).await?;
    let properties = take(&channel, &dead).await?.properties;
    let headers = properties.headers().as_ref().ok_or("no headers")?;
    let Some(AMQPValue::FieldArray(deaths)) = headers.inner().get("x-death") else { return Err("no x-death".into()) };
    let Some(AMQPValue::FieldTable(death)) = deaths.as_slice().first() else { return Err("no death".into()) };
    equal(death.inner().get("count"), Some(&AMQPValue::LongLongInt(1)))?;
    equal(death.inner().get("reason"), Some(&AMQPValue::LongString("expired".into())))
}

async fn large_bodies(channel: Channel) -> Outcome {
    let queue = queue(&channel, FieldTable::default()).await?;
    for size in [0, 1, 131_064, 131_065, 2_000_000] {
        let body = vec![size as u8; size];
        put(&channel, "", &queue, &body, BasicProperties::default()).await?;
        equal(take(&channel, &queue).await?.data == body, true)?;
    }
    Ok(())
}

#[derive(Default)]
struct Totals {
    passed: u32,
    failed: u32,
}

impl Totals {
    async fn check<F: Future<Output = Outcome>>(&mut self, name: &str, run: impl FnOnce(Channel) -> F) {
        let whole = async {
            let connection = connect().await?;
            // held until the end: the last handle of a channel closes it
            let channel = connection.create_channel().await?;
            run(channel.clone()).await?;
            connection.close(200, "done".into()).await?;
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        };
        match tokio::time::timeout(Duration::from_secs(30), whole).await {
            Ok(Ok(())) => self.passed += 1,
            Ok(Err(error)) => self.fail(name, &error.to_string()),
            Err(_) => self.fail(name, "took 30 s"),
        }
    }

    fn fail(&mut self, name: &str, why: &str) {
        self.failed += 1;
        println!("FAILED {name}: {why}");
    }
}

#[tokio::main]
async fn main() {
    let mut totals = Totals::default();
    totals.check("confirms and consumes", confirms_and_consumes).await;
    totals.check("header types", header_types).await;
    totals.check("returns and nacks", returns_and_nacks).await;
    totals.check("exchanges", exchanges).await;
    totals.check("refusal closes the channel", refusal_closes_the_channel).await;
    totals.check("dead letters", dead_letters).await;
    totals.check("large bodies", large_bodies).await;
    println!("{} passed, {} failed", totals.passed, totals.failed);
    std::process::exit(i32::from(totals.failed > 0));
}
