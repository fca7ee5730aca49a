//! A protocol of lines: `echo X` answers, `ask` is a request, `big N` has N bytes behind it, and so on.

use std::time::Duration;

use framegate_broker::{
    BrokerError, ConsumerId, Effect, FeedItem, Name, Query, Request, RequestId, Subscribe,
};

use crate::outbound::Outbound;
use crate::session::{
    Credentials, Login, LoginError, Progress, Secret, Session, SessionError, Subscribed, Welcome,
};

pub(super) struct FakeSession {
    /// Who logs in at once; empty: nobody.
    user: &'static str,
    tick_every: Option<Duration>,
    next: u64,
    pause_feeds: bool,
    waits: bool,
    unread: bool,
}

impl Default for FakeSession {
    fn default() -> Self {
        Self { user: "alice", tick_every: None, next: 0, pause_feeds: false, waits: false, unread: false }
    }
}

impl FakeSession {
    pub(super) fn logged_out() -> Self {
        Self { user: "", ..Self::default() }
    }

    pub(super) fn ticking(every: Duration) -> Self {
        Self { tick_every: Some(every), ..Self::default() }
    }
}

fn login(user: &str) -> Option<Login> {
    let credentials = Credentials::Password { user: user.to_owned(), password: Secret(String::new()) };
    Some(Login { credentials, vhost: None })
}

fn say(out: &mut Outbound, text: &str) {
    out.put(text.as_bytes());
    out.put(b"\n");
    out.end_packet();
}

impl FakeSession {
    /// Bytes of the first line with what belongs to it, or how many it needs.
    fn line(input: &[u8]) -> Result<(String, usize), usize> {
        let Some(end) = input.iter().position(|b| *b == b'\n') else { return Err(0) };
        let line = String::from_utf8_lossy(&input[..end]).into_owned();
        let body: usize = line.strip_prefix("big ").map_or(0, |n| n.parse().unwrap());
        let whole = end + 1 + body;
        if input.len() < whole { Err(whole) } else { Ok((line, whole)) }
    }

    fn command(&mut self, line: &str, out: &mut Outbound) -> Result<(), SessionError> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("echo" | "big", text) => say(out, text),
            ("ask", _) => {
                self.next += 1;
                out.request(RequestId(self.next), Request::Query(Query::Stats));
            }
            // Waits for the answer to what was asked before.
            ("wait", _) => self.waits = true,
            ("login", user) => out.login = login(user),
            ("sub", topic) => {
                self.next += 1;
                let what = Subscribe {
                    patterns: vec![Name::new(topic).unwrap()],
                    from: framegate_broker::feed::From::Latest,
                };
                out.subscribe.push((ConsumerId(u32::try_from(self.next).unwrap()), what));
            }
            ("unsub", id) => out.unsubscribe.push(ConsumerId(id.parse().unwrap())),
            ("pause", _) => self.pause_feeds = true,
            ("resume", id) => {
                self.pause_feeds = false;
                out.resume_feed.push(ConsumerId(id.parse().unwrap()));
            }
            ("flood", count) => {
                for _ in 0..count.parse().unwrap() {
                    out.put(&[b'x'; 1024]);
                }
            }
            ("quit", _) => {
                say(out, "bye");
                out.close(1000, "quit");
            }
            ("panic", _) => panic!("as asked"),
            (other, _) => {
                say(out, "what?");
                return Err(SessionError::new(format!("unknown command '{other}'")));
            }
        }
        Ok(())
    }
}

impl Session for FakeSession {
    fn open(&mut self, out: &mut Outbound) {
        if !self.user.is_empty() {
            out.login = login(self.user);
        }
    }

    fn read(&mut self, input: &[u8], out: &mut Outbound) -> Result<Progress, SessionError> {
        let mut consumed = 0;
        while out.login.is_none() && out.close.is_none() && !self.waits {
            match Self::line(&input[consumed..]) {
                Err(need) => return Ok(Progress { consumed, need }),
                Ok((line, bytes)) => {
                    consumed += bytes;
                    self.command(&line, out)?;
                }
            }
        }
        Ok(Progress { consumed, need: 0 })
    }

    fn logged_in(
        &mut self,
        result: Result<Welcome, LoginError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        match result {
            Ok(welcome) if welcome.connection.0 > 1 => say(out, &format!("welcome {}", welcome.user)),
            Ok(_) => {}
            Err(error) => say(out, &error.to_string()),
        }
        Ok(())
    }

    fn effect(&mut self, effect: Effect, out: &mut Outbound) -> Result<(), SessionError> {
        match effect {
            Effect::Reply(id, _) => {
                self.waits = false;
                say(out, &format!("reply {id}"));
            }
            Effect::Delivery(delivery) => {
                out.put(delivery.frame.data());
                say(out, "");
            }
            _ => {}
        }
        Ok(())
    }

    fn subscribed(
        &mut self,
        consumer: ConsumerId,
        result: Result<Subscribed, BrokerError>,
        out: &mut Outbound,
    ) -> Result<(), SessionError> {
        match result {
            Ok(_) => say(out, &format!("subscribed {consumer}")),
            Err(error) => say(out, &error.to_string()),
        }
        Ok(())
    }

    fn feed(
        &mut self,
        consumer: ConsumerId,
        item: &FeedItem,
        out: &mut Outbound,
    ) -> Result<bool, SessionError> {
        if let FeedItem::Event(event) = item {
            say(out, &format!("{consumer}: {}", String::from_utf8_lossy(event.frame.data())));
        }
        Ok(!self.pause_feeds)
    }

    fn unread(&mut self) {
        self.unread = true;
    }

    fn tick(&mut self, now: Duration, out: &mut Outbound) -> Result<Duration, SessionError> {
        let Some(every) = self.tick_every else { return Ok(Duration::MAX) };
        let unread = if std::mem::take(&mut self.unread) { " unread" } else { "" };
        say(out, &format!("tick {}{unread}", now.as_millis()));
        Ok(every)
    }

    fn drain(&mut self, out: &mut Outbound) {
        say(out, "draining");
        out.close(1001, "going away");
    }
}
