//! Query strings and topic paths: percent-decoded once. Never looks a name up.

use percent_encoding::percent_decode_str;

use super::problem::Problem;
use crate::event::Place;

/// Parameters of a query string in order; names may repeat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(pub(crate) Vec<(String, String)>);

impl Query {
    /// Parses the text behind `?`. Text that is no UTF-8 is replaced, as browsers do.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let decode = |part: &str| {
            let spaced = part.replace('+', " ");
            percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
        };
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(name), decode(value))
                })
                .collect(),
        )
    }

    /// The first value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Every value of a name.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A number between two bounds, or nothing.
    ///
    /// # Errors
    /// 400 that names the parameter.
    pub(crate) fn number(&self, name: &'static str, from: u64, to: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(value) if (from..=to).contains(&value) => Ok(Some(value)),
            _ => Err(Problem::at(Place::Query(name), &format!("is not a number from {from} to {to}"))),
        }
    }
}

/// What a path under `/v1/topics/` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicPath<'a> {
    /// The topic, decoded.
    pub(crate) topic: String,
    /// The last segment.
    pub(crate) action: &'a str,
}

impl<'a> TopicPath<'a> {
    /// Splits `/v1/topics/<topic>/<action>`; slashes inside the topic are allowed, as they are or escaped.
    ///
    /// # Errors
    /// 404 for another shape, 400 for a topic that is not UTF-8.
    pub(crate) fn parse(path: &'a str) -> Result<Self, Problem> {
        let unknown = || Problem::new(404, "not_found", "no such route");
        let rest = path.strip_prefix("/v1/topics/").ok_or_else(unknown)?;
        let (topic, action) = rest.rsplit_once('/').ok_or_else(unknown)?;
        let topic = percent_decode_str(topic)
            .decode_utf8()
            .map_err(|_| Problem::new(400, "bad_request", "the topic in the path is not UTF-8"))?;
        Ok(Self { topic: topic.into_owned(), action })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_repeat_and_are_decoded_once() {
        let query = Query::parse(Some("topic=a%2Fb&topic=x+y&&flag&e=%2525"));
        assert_eq!(query.all("topic").collect::<Vec<_>>(), ["a/b", "x y"]);
        assert_eq!((query.get("flag"), query.get("e"), query.get("none")), (Some(""), Some("%25"), None));
        assert_eq!(Query::parse(None), Query::default());
    }

    #[test]
    fn topics_hold_slashes_as_they_are_or_escaped() {
        for path in ["/v1/topics/a/b/events", "/v1/topics/a%2Fb/events"] {
            let parsed = TopicPath::parse(path).unwrap();
            assert_eq!((parsed.topic.as_str(), parsed.action), ("a/b", "events"));
        }
        assert_eq!(TopicPath::parse("/v1/topics/a%2525/events").unwrap().topic, "a%25");
        assert_eq!(TopicPath::parse("/v1/topics/events").unwrap_err().status, 404);
        assert_eq!(TopicPath::parse("/v1/topics/%FF/events").unwrap_err().status, 400);
    }
}
