//! What a subscription yields.
//!
//! Read by hand-written visitors: the type normally comes before what depends on it, so that is read in place, once, without
//! an intermediate tree. In any other order it is held unread until the type is known. Works with JSON only.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::ask::{HeadersRequest, PermissionRequest, UserInputRequest};
use super::payload::Payload;
use super::snapshot::{Snapshot, StateNotification};
use super::text::Text;

/// An event of a subscription.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every event is the large one; a box would be an allocation for each"
)]
pub enum DynamicEvent<'a> {
    /// `snapshot`: the state, first.
    Snapshot(Box<Snapshot<'a>>),
    /// `state.updated`: facts changed.
    StateUpdated(Box<StateNotification<'a>>),
    /// `permission.request`
    PermissionRequest(Box<PermissionRequest<'a>>),
    /// `userInput.request`
    UserInputRequest(Box<UserInputRequest<'a>>),
    /// `userInput.response`: answered elsewhere, or by the host itself.
    UserInputResponse {
        /// Request that is settled.
        request_id: Text<'a>,
    },
    /// `providerRuntimeHeaders.request`
    HeadersRequest(HeadersRequest<'a>),
    /// `session.event`: a numbered event.
    Session(SessionEvent<'a>),
    /// A type this protocol does not have.
    Unknown(Text<'a>),
}

/// A numbered event.
#[derive(Debug, Clone)]
pub struct SessionEvent<'a> {
    /// Identity.
    pub event_id: Text<'a>,
    /// Session it belongs to.
    pub session_id: Text<'a>,
    /// Turn it belongs to.
    pub turn_id: Option<Text<'a>>,
    /// Order.
    pub seq: u64,
    /// Type, as written.
    pub kind: Text<'a>,
    /// Payload.
    pub payload: Payload<'a>,
}

/// Why an event cannot be understood. Quotes names only, never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// A required member is missing.
    #[error("{event} lacks {field}")]
    Missing {
        /// Type of the event, as far as it could be read.
        event: String,
        /// Name of the member.
        field: String,
    },
    /// A member has another type than it must have.
    #[error("{event} is malformed")]
    Malformed {
        /// Type of the event, as far as it could be read.
        event: String,
    },
}

/// Reads one event that stands alone, with a typed error.
pub fn parse_event(json: &str) -> Result<DynamicEvent<'_>, EventError> {
    serde_json::from_str(json).map_err(|error| explain(json, &error))
}

/// Finds out what was wrong. serde's messages may quote values, so only the name of a missing member is taken from them.
fn explain(json: &str, error: &serde_json::Error) -> EventError {
    let event = type_of(json);
    let message = error.to_string();
    match message.strip_prefix("missing field `").and_then(|rest| rest.split_once('`')) {
        Some((field, _)) => EventError::Missing { event, field: field.to_owned() },
        None => EventError::Malformed { event },
    }
}

/// Type of an event that could not be read, with the inner type and kind where there are some.
fn type_of(json: &str) -> String {
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct Probe<'a> {
        #[serde(rename = "type", borrow)]
        kind: super::Lenient<Text<'a>>,
        #[serde(borrow)]
        event: Option<&'a RawValue>,
    }
    let probe = |json: &str| -> (String, Option<String>) {
        let probe: Probe<'_> = serde_json::from_str(json).unwrap_or_default();
        let kind = probe.kind.0.map_or_else(|| "an event without a type".to_owned(), |kind| name(&kind));
        (kind, probe.event.map(|event| event.get().to_owned()))
    };
    match probe(json) {
        (kind, Some(inner)) if kind == "session.event" => match probe(&inner) {
            (inner, _) if inner.starts_with("an event") => kind,
            (inner, _) => inner,
        },
        (kind, _) => kind,
    }
}

/// A foreign name, fit to be shown: capped, and nothing but the characters names are made of.
pub fn name(foreign: &str) -> String {
    foreign
        .chars()
        .take(64)
        .map(|c| if c.is_ascii_alphanumeric() || "._-:".contains(c) { c } else { '?' })
        .collect()
}

macro_rules! visitor_of {
    ($name:ident) => {
        impl<'de: 'a, 'a> Deserialize<'de> for $name<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map(Reader::<$name<'a>>(PhantomData))
            }
        }
    };
}

struct Reader<T>(PhantomData<T>);

visitor_of!(DynamicEvent);
visitor_of!(SessionEvent);

/// Reads a value whose reading had to wait.
fn later<'de, E: de::Error, S: DeserializeSeed<'de>>(seed: S, raw: &'de str) -> Result<S::Value, E> {
    seed.deserialize(&mut serde_json::Deserializer::from_str(raw)).map_err(E::custom)
}

#[derive(serde::Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(field_identifier, rename_all = "camelCase")]
enum OuterField {
    Type,
    Snapshot,
    Notification,
    Request,
    RequestId,
    Event,
    #[serde(other)]
    Other,
}

/// Which member belongs to a type, if any.
fn body_of(kind: &str) -> Option<(OuterField, &'static str)> {
    match kind {
        "session.event" => Some((OuterField::Event, "event")),
        "snapshot" => Some((OuterField::Snapshot, "snapshot")),
        "state.updated" => Some((OuterField::Notification, "notification")),
        "permission.request" | "userInput.request" | "providerRuntimeHeaders.request" => {
            Some((OuterField::Request, "request"))
        }
        "userInput.response" => Some((OuterField::RequestId, "requestId")),
        _ => None,
    }
}

struct Body<'k>(&'k str);

impl<'de> DeserializeSeed<'de> for Body<'_> {
    type Value = DynamicEvent<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<DynamicEvent<'de>, D::Error> {
        Ok(match self.0 {
            "session.event" => DynamicEvent::Session(SessionEvent::deserialize(deserializer)?),
            "snapshot" => DynamicEvent::Snapshot(Box::deserialize(deserializer)?),
            "state.updated" => DynamicEvent::StateUpdated(Box::deserialize(deserializer)?),
            "permission.request" => DynamicEvent::PermissionRequest(Box::deserialize(deserializer)?),
            "userInput.request" => DynamicEvent::UserInputRequest(Box::deserialize(deserializer)?),
            "providerRuntimeHeaders.request" => {
                DynamicEvent::HeadersRequest(HeadersRequest::deserialize(deserializer)?)
            }
            "userInput.response" => {
                DynamicEvent::UserInputResponse { request_id: Text::deserialize(deserializer)? }
            }
            other => {
                IgnoredAny::deserialize(deserializer)?;
                DynamicEvent::Unknown(Text(Cow::Owned(other.to_owned())))
            }
        })
    }
}

impl<'de: 'a, 'a> Visitor<'de> for Reader<DynamicEvent<'a>> {
    type Value = DynamicEvent<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DynamicEvent<'a>, A::Error> {
        let mut kind: Option<Text<'de>> = None;
        let mut body: Option<DynamicEvent<'de>> = None;
        // There are five members a body can be in, so this is bounded by the shape.
        let mut held: Vec<(OuterField, &'de RawValue)> = Vec::new();
        while let Some(field) = map.next_key::<OuterField>()? {
            match (field, &kind) {
                (OuterField::Type, None) => kind = Some(map.next_value()?),
                (OuterField::Type, Some(_)) => return Err(de::Error::duplicate_field("type")),
                (OuterField::Other, _) => {
                    map.next_value::<IgnoredAny>()?;
                }
                (field, None) => {
                    let raw = map.next_value()?;
                    held.retain(|(known, _)| *known != field);
                    held.push((field, raw));
                }
                (field, Some(kind)) if body_of(kind).is_some_and(|(wanted, _)| wanted == field) => {
                    if body.is_some() {
                        return Err(de::Error::custom("a member occurs twice"));
                    }
                    body = Some(map.next_value_seed(Body(kind))?);
                }
                (_, Some(_)) => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let kind = kind.ok_or_else(|| de::Error::missing_field("type"))?;
        if let Some(body) = body {
            return Ok(body);
        }
        let Some((wanted, named)) = body_of(&kind) else {
            return Ok(DynamicEvent::Unknown(kind));
        };
        match held.into_iter().find(|(field, _)| *field == wanted) {
            Some((_, raw)) => later(Body(&kind), raw.get()),
            None => Err(de::Error::missing_field(named)),
        }
    }
}

#[derive(serde::Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(field_identifier, rename_all = "camelCase")]
enum InnerField {
    EventId,
    SessionId,
    TurnId,
    Seq,
    Type,
    Payload,
    #[serde(other)]
    Other,
}

struct PayloadOf<'k>(&'k str);

impl<'de> DeserializeSeed<'de> for PayloadOf<'_> {
    type Value = Payload<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Payload<'de>, D::Error> {
        macro_rules! read {
            ($variant:ident) => {
                Payload::$variant(Deserialize::deserialize(deserializer)?)
            };
        }
        Ok(match self.0 {
            "model.streaming" => read!(Streaming),
            "tool.updated" => read!(Tool),
            "turn.started" => read!(TurnStarted),
            "turn.steerQueued" => read!(SteerQueued),
            "turn.steerDrained" => read!(SteerDrained),
            "turn.completed" => read!(TurnCompleted),
            "turn.failed" => read!(TurnFailed),
            "session.updated" => read!(SessionUpdated),
            "session.titleUpdated" => read!(Title),
            "session.resumed" => read!(SessionResumed),
            "permission.resolved" | "userInput.resolved" => read!(Resolved),
            other => {
                IgnoredAny::deserialize(deserializer)?;
                match other {
                    "session.closed" => Payload::SessionClosed,
                    "turn.terminal" => Payload::TurnTerminal,
                    _ => Payload::Other,
                }
            }
        })
    }
}

impl<'de: 'a, 'a> Visitor<'de> for Reader<SessionEvent<'a>> {
    type Value = SessionEvent<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a numbered event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SessionEvent<'a>, A::Error> {
        let (mut event_id, mut session_id, mut turn_id, mut seq) = (None, None, None, None);
        let mut kind: Option<Text<'de>> = None;
        let mut payload: Option<Payload<'de>> = None;
        let mut held: Option<&'de RawValue> = None;
        while let Some(field) = map.next_key::<InnerField>()? {
            match field {
                InnerField::EventId => event_id = Some(map.next_value()?),
                InnerField::SessionId => session_id = Some(map.next_value()?),
                InnerField::TurnId => turn_id = map.next_value::<Option<Text<'de>>>()?,
                InnerField::Seq => seq = Some(map.next_value()?),
                InnerField::Type if kind.is_some() => return Err(de::Error::duplicate_field("type")),
                InnerField::Type => kind = Some(map.next_value()?),
                InnerField::Payload if payload.is_some() || held.is_some() => {
                    return Err(de::Error::duplicate_field("payload"));
                }
                InnerField::Payload => match &kind {
                    Some(kind) => payload = Some(map.next_value_seed(PayloadOf(kind))?),
                    None => held = Some(map.next_value()?),
                },
                InnerField::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let kind = kind.ok_or_else(|| de::Error::missing_field("type"))?;
        let payload = match payload {
            Some(payload) => payload,
            // An absent payload is an empty one: what must be in it is then reported by name.
            None => later(PayloadOf(&kind), held.map_or("{}", RawValue::get))?,
        };
        Ok(SessionEvent {
            event_id: event_id.ok_or_else(|| de::Error::missing_field("eventId"))?,
            session_id: session_id.ok_or_else(|| de::Error::missing_field("sessionId"))?,
            turn_id,
            seq: seq.ok_or_else(|| de::Error::missing_field("seq"))?,
            kind,
            payload,
        })
    }
}
