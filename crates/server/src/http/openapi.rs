//! The description of the HTTP interface, made when a server starts: from the table of routes, and from
//! what the .proto file says about messages, comments included.

use std::collections::BTreeMap;

use conclave_api::DESCRIPTORS;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet,
};
use serde_json::{Map, Value, json};

use super::constraints::{LAST_NUMBER, constrain, number, required};
use super::routes::{Gives, Method, ROUTES, Route, Takes};

/// The whole description, but for what begins as HTTP and goes on as something else, which it has no words for.
pub(crate) fn description() -> Value {
    let words = Words::read();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES.iter().filter(|route| !matches!(route.gives, Gives::Stream)) {
        let method = match route.method {
            Method::Get => "get",
            Method::Post => "post",
        };
        paths.entry(route.path).or_default().insert(method.to_owned(), words.operation(route));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Conclave",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Locks and elections. Names go into bodies and queries, and may contain slashes. What is \
                            not described here: `GET /v1/talk` goes on as a stream of messages, with \
                            `Connection: Upgrade` and `Upgrade: conclave.v1`.",
        },
        "paths": paths,
        "security": [{}, { "token": [] }],
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": words.schemas(),
        },
    })
}

/// What the .proto file says.
struct Words {
    file: FileDescriptorProto,
    /// Comments, by where they stand.
    comments: BTreeMap<Vec<i32>, String>,
}

/// Where messages, enumerations, fields and values are in the description of a file.
const MESSAGE: i32 = 4;
const ENUM: i32 = 5;
const FIELD: i32 = 2;

impl Words {
    fn read() -> Self {
        let files =
            FileDescriptorSet::decode(DESCRIPTORS).expect("the descriptors are well-formed");
        let mut files = files.file.into_iter();
        let file = files.find(|file| file.package() == "conclave.v1").expect("it is there");
        let located = file.source_code_info.iter().flat_map(|info| &info.location);
        let comments = located.filter_map(|at| {
            let lines = at.leading_comments().lines().map(str::trim).collect::<Vec<_>>();
            let comment = lines.join(" ").trim().to_owned();
            (!comment.is_empty()).then(|| (at.path.clone(), comment))
        });
        Self { comments: comments.collect(), file }
    }

    fn operation(&self, route: &Route) -> Value {
        let mut operation = json!({
            "summary": route.about,
            "responses": {
                "200": { "description": "It is done.", "content": content(&route.gives) },
                "default": {
                    "description": "It was not done.",
                    "content": { "application/json": { "schema": reference("Failed") } },
                },
            },
        });
        match route.takes {
            Takes::Nothing => {}
            Takes::Query(message) => {
                let schema = self.message_named(message);
                let properties = schema["properties"].as_object().cloned().unwrap_or_default();
                let parameters = properties.into_iter().map(|(name, mut schema)| {
                    let about = schema.as_object_mut().and_then(|all| all.remove("description"));
                    let needed = required(message).contains(&name.as_str());
                    let mut parameter =
                        json!({ "name": name, "in": "query", "required": needed, "schema": schema });
                    if let Some(about) = about {
                        parameter["description"] = about;
                    }
                    parameter
                });
                operation["parameters"] = parameters.collect();
            }
            Takes::Body(messages) => operation["requestBody"] = self.body(messages, false),
            Takes::Session(messages) => operation["requestBody"] = self.body(messages, true),
        }
        operation
    }

    /// A body with the fields of several messages. One lock needs no list, but then there must be none.
    fn body(&self, messages: &[&str], for_session: bool) -> Value {
        let schema = match messages {
            ["Acquire", "Want"] => json!({ "oneOf": [
                self.fields(&["Acquire", "Want"], for_session, &["wants"]),
                self.fields(&["Acquire"], for_session, &[]),
            ] }),
            // Of all sessions of a token, a host or an address.
            ["EndSessions"] => {
                let origins = ["opened_by", "host", "address"];
                let one = origins.map(|origin| {
                    let others: Vec<&str> =
                        origins.into_iter().filter(|other| *other != origin).collect();
                    let mut one = self.fields(messages, for_session, &others);
                    one["required"] = json!([origin, "reason"]);
                    one
                });
                json!({ "oneOf": one })
            }
            messages => self.fields(messages, for_session, &[]),
        };
        let needed = for_session || messages.iter().any(|message| !required(message).is_empty());
        json!({ "required": needed, "content": { "application/json": { "schema": schema } } })
    }

    /// The fields of several messages, but for some.
    fn fields(&self, messages: &[&str], for_session: bool, but_for: &[&str]) -> Value {
        let (mut properties, mut needed) = (Map::new(), Vec::new());
        if for_session {
            properties.insert("session".into(), handle());
            let about = "The number of the request, if it is to be made again or cancelled.";
            let number = described(number(1, LAST_NUMBER), Some(&about.to_owned()));
            properties.insert("request".into(), number);
            needed.push("session");
        }
        for message in messages {
            needed.extend(required(message));
            if let Value::Object(more) = &self.message_named(message)["properties"] {
                properties.extend(more.clone());
            }
        }
        let here = |field: &str| !but_for.contains(&field);
        properties.retain(|field, _| here(field));
        needed.retain(|field| here(field));
        json!({
            "type": "object",
            "properties": properties,
            "required": needed,
            "additionalProperties": false,
        })
    }

    fn schemas(&self) -> Value {
        let messages = self.file.message_type.iter().enumerate();
        // These have alternatives, and are for streams.
        let messages = messages.filter(|(_, message)| message.oneof_decl.iter().all(is_synthetic));
        let messages =
            messages.map(|(at, message)| (message.name().to_owned(), self.message(at, message)));
        let enums = self.file.enum_type.iter().enumerate();
        let enums = enums.map(|(at, all)| (all.name().to_owned(), self.enumeration(at, all)));
        messages.chain(enums).collect()
    }

    fn message_named(&self, name: &str) -> Value {
        let mut messages = self.file.message_type.iter().enumerate();
        let (at, message) = messages
            .find(|(_, message)| message.name() == name)
            .expect("the table of routes names messages that exist");
        self.message(at, message)
    }

    fn message(&self, at: usize, message: &DescriptorProto) -> Value {
        let path = [MESSAGE, at as i32];
        let fields = message.field.iter().enumerate();
        let properties: Map<String, Value> = fields
            .map(|(index, field)| {
                let about = self
                    .comments
                    .get([path.as_slice(), &[FIELD, index as i32]].concat().as_slice());
                let schema = constrain(message.name(), field.name(), schema(field));
                (field.name().to_owned(), described(schema, about))
            })
            .collect();
        let mut schema = json!({ "type": "object", "properties": properties });
        let needed = required(message.name());
        if !needed.is_empty() {
            schema["required"] = json!(needed);
            schema["additionalProperties"] = json!(false);
        }
        described(schema, self.comments.get(path.as_slice()))
    }

    fn enumeration(&self, at: usize, all: &EnumDescriptorProto) -> Value {
        let path = [ENUM, at as i32];
        let values = all.value.iter().map(|value| value.name().to_lowercase());
        let about = all.value.iter().enumerate().filter_map(|(index, value)| {
            let about =
                self.comments.get([path.as_slice(), &[FIELD, index as i32]].concat().as_slice())?;
            Some(format!("{}: {about}", value.name().to_lowercase()))
        });
        let about = about.collect::<Vec<_>>().join(" ");
        let schema = json!({ "type": "string", "enum": values.collect::<Vec<_>>() });
        described(schema, (!about.is_empty()).then_some(&about))
    }
}

/// `optional` is kept as an alternative of one field.
fn is_synthetic(alternatives: &prost_types::OneofDescriptorProto) -> bool {
    alternatives.name().starts_with('_')
}

fn described(schema: Value, about: Option<&String>) -> Value {
    match (schema, about) {
        (Value::Object(mut schema), Some(about)) => {
            schema.insert("description".to_owned(), json!(about));
            Value::Object(schema)
        }
        (schema, _) => schema,
    }
}

/// A field as JSON has it.
fn schema(field: &FieldDescriptorProto) -> Value {
    let named = || field.type_name().rsplit('.').next().unwrap_or_default();
    let one = match field.r#type() {
        Type::Message | Type::Enum => reference(named()),
        Type::Bool => json!({ "type": "boolean" }),
        Type::String => json!({ "type": "string" }),
        // What a leader proclaims is mostly text.
        Type::Bytes => json!({ "type": "string" }),
        Type::Uint32 => number(0, u32::MAX),
        Type::Uint64 | Type::Fixed64 => number(0, u64::MAX),
        Type::Sint32 | Type::Int32 => number(i32::MIN, i32::MAX),
        _ => number(i64::MIN, i64::MAX),
    };
    if field.label() == Label::Repeated {
        json!({ "type": "array", "items": one })
    } else if field.proto3_optional() {
        json!({ "anyOf": [one, { "type": "null" }] })
    } else {
        one
    }
}

fn reference(message: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{message}") })
}

fn handle() -> Value {
    json!({
        "type": "string",
        "pattern": "^[0-9]{1,19}\\.[0-9a-f]{16}$",
        "description": "The session, as it was given. A client that knows it may act for the session.",
    })
}

fn content(gives: &Gives) -> Value {
    match gives {
        Gives::Message(message) => json!({ "application/json": { "schema": reference(message) } }),
        Gives::Handle => json!({ "application/json": { "schema": {
            "type": "object",
            "properties": {
                "session": handle(),
                "ttl_ms": number(0, u64::MAX),
                "deposed": {
                    "type": "array",
                    "items": reference("DeposedLeader"),
                    "description": "Leaderships of a session that was there already, which were deposed: to ask for the session again renews it, but does not prolong these.",
                },
            },
        } } }),
        Gives::Events(message) => {
            let about = format!("Each `data:` line is JSON: {message}.");
            json!({ "text/event-stream": { "schema": { "type": "string", "description": about } } })
        }
        Gives::Text => json!({ "text/plain": { "schema": { "type": "string" } } }),
        Gives::Figures => json!({
            "text/plain": { "schema": { "type": "string" } },
            "application/openmetrics-text": { "schema": { "type": "string" } },
        }),
        Gives::Json => json!({ "application/json": { "schema": { "type": "object" } } }),
        Gives::File => json!({ "application/octet-stream": {
            "schema": { "type": "string", "format": "binary" },
        } }),
        Gives::Stream => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_with_what_it_takes() {
        let all = description();
        for route in ROUTES.iter().filter(|route| route.path != "/v1/talk") {
            let method = format!("{:?}", route.method).to_lowercase();
            assert_eq!(all["paths"][route.path][&method]["summary"], route.about, "{}", route.path);
        }
        let acquire = &all["paths"]["/v1/acquire"]["post"]["requestBody"]["content"];
        let [one, several] = [0, 1].map(|at| &acquire["application/json"]["schema"]["oneOf"][at]);
        for field in ["session", "request", "lock", "mode", "timeout_ms"] {
            assert!(one["properties"][field].is_object(), "{field} is missing in {one}");
        }
        assert!(one["properties"]["wants"].is_null() && several["properties"]["lock"].is_null());
        assert_eq!(one["required"], json!(["session", "lock"]));
        assert_eq!(several["required"], json!(["session", "wants"]));
        let about = one["properties"]["timeout_ms"]["description"].as_str();
        let about = about.expect("it has a comment");
        assert!(about.starts_with("For how long it may take: 0 means"), "{about}");
        let modes = &all["components"]["schemas"]["Mode"]["enum"];
        assert_eq!(*modes, json!(["exclusive", "shared", "permits"]));
    }

    #[test]
    fn what_is_refused_for_its_form_is_excluded_by_the_description() {
        let all = description();
        let body = |path: &str| {
            let body = &all["paths"][path]["post"]["requestBody"];
            let schema = body["content"]["application/json"]["schema"].clone();
            (body["required"].clone(), schema)
        };
        let (required, open) = body("/v1/sessions");
        assert_eq!(required, json!(false), "a session can be opened without a word");
        let ttl = &open["properties"]["ttl_ms"]["anyOf"];
        assert_eq!((&ttl[0]["const"], &ttl[1]["minimum"]), (&json!(0), &json!(100)));
        let (required, release) = body("/v1/release");
        assert_eq!(required, json!(true));
        assert_eq!(release["required"], json!(["session", "lock"]));
        let lock = &release["properties"]["lock"];
        assert_eq!((&lock["minLength"], &lock["maxLength"]), (&json!(1), &json!(512)));
        assert_eq!(body("/v1/cancel").1["required"], json!(["session", "request"]));
        let reason = body("/v1/admin/release").1["properties"]["reason"].clone();
        assert_eq!((&reason["minLength"], &reason["pattern"]), (&json!(1), &json!("\\S")));
        let page = all["paths"]["/v1/locks"]["get"]["parameters"].as_array().expect("a list");
        let limit =
            page.iter().find(|parameter| parameter["name"] == "limit").expect("it is there");
        assert_eq!(limit["schema"]["maximum"], json!(u32::MAX));
        let why = &all["paths"]["/v1/why"]["get"]["parameters"][0];
        assert_eq!((&why["required"], &why["schema"]["minLength"]), (&json!(true), &json!(1)));
        let metrics = &all["paths"]["/metrics"]["get"]["responses"]["200"]["content"];
        assert!(metrics["text/plain"].is_object());
        assert!(metrics["application/openmetrics-text"].is_object());
    }

    #[test]
    fn every_message_that_is_referred_to_is_described() {
        let all = description();
        let text = all.to_string();
        for (at, _) in text.match_indices("#/components/schemas/") {
            let name = &text[at + 21..];
            let name = &name[..name.find('"').expect("it ends")];
            assert!(all["components"]["schemas"][name].is_object(), "there is no {name}");
        }
    }
}
