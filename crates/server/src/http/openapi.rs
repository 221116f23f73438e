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

use super::routes::{Gives, Method, ROUTES, Route, Takes};

/// The whole description.
pub(crate) fn description() -> Value {
    let words = Words::read();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
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
            "description": "Locks and elections. Names go into bodies and queries, and may contain slashes.",
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
        let done = if matches!(route.gives, Gives::Stream) { "101" } else { "200" };
        let mut operation = json!({
            "summary": route.about,
            "responses": {
                done: { "description": "It is done.", "content": content(&route.gives) },
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
                    let mut parameter = json!({ "name": name, "in": "query", "schema": schema });
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

    /// A body with the fields of several messages.
    fn body(&self, messages: &[&str], for_session: bool) -> Value {
        let mut properties = Map::new();
        if for_session {
            properties.insert("session".into(), handle());
            let about = "The number of the request, if it is to be made again or cancelled.";
            let number = json!({ "type": "integer", "minimum": 1, "description": about });
            properties.insert("request".into(), number);
        }
        for message in messages {
            if let Value::Object(more) = &self.message_named(message)["properties"] {
                properties.extend(more.clone());
            }
        }
        let needed: &[&str] = if for_session { &["session"] } else { &[] };
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": needed,
            "additionalProperties": false,
        });
        json!({ "required": true, "content": { "application/json": { "schema": schema } } })
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
                (field.name().to_owned(), described(schema(field), about))
            })
            .collect();
        let schema = json!({ "type": "object", "properties": properties });
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
        Type::Uint32 => json!({ "type": "integer", "format": "uint32", "minimum": 0 }),
        Type::Uint64 | Type::Fixed64 => {
            json!({ "type": "integer", "format": "uint64", "minimum": 0 })
        }
        _ => json!({ "type": "integer", "format": "int64" }),
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
        "pattern": "^[0-9]+\\.[0-9a-f]{16}$",
        "description": "The session, as it was given. Whoever knows it may act for the session.",
    })
}

fn content(gives: &Gives) -> Value {
    match gives {
        Gives::Message(message) => json!({ "application/json": { "schema": reference(message) } }),
        Gives::Handle => json!({ "application/json": { "schema": {
            "type": "object",
            "properties": { "session": handle(), "ttl_ms": { "type": "integer", "minimum": 0 } },
        } } }),
        Gives::Events(message) => {
            let about = format!("Each `data:` line is JSON: {message}.");
            json!({ "text/event-stream": { "schema": { "type": "string", "description": about } } })
        }
        Gives::Text => json!({ "text/plain": { "schema": { "type": "string" } } }),
        Gives::Json => json!({ "application/json": { "schema": { "type": "object" } } }),
        Gives::Stream => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_with_what_it_takes() {
        let all = description();
        for route in ROUTES {
            let method = format!("{:?}", route.method).to_lowercase();
            assert_eq!(all["paths"][route.path][&method]["summary"], route.about, "{}", route.path);
        }
        let acquire = &all["paths"]["/v1/acquire"]["post"]["requestBody"]["content"];
        let acquire = &acquire["application/json"]["schema"]["properties"];
        for field in ["session", "request", "lock", "mode", "wants", "timeout_ms"] {
            assert!(acquire[field].is_object(), "{field} is missing in {acquire}");
        }
        let about = acquire["timeout_ms"]["description"].as_str().expect("it has a comment");
        assert!(about.starts_with("For how long it may take: 0 means"), "{about}");
        let modes = &all["components"]["schemas"]["Mode"]["enum"];
        assert_eq!(*modes, json!(["exclusive", "shared", "permits"]));
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
