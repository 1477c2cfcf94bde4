//! The protobuf encoding of a document of OpenAPI v2, in the messages of gnostic's package `openapi.v2`: client-go asks for
//! no other one.
//!
//! The numbers are those of the fields in `OpenAPIv2.proto`.

use serde_json::{Map, Value};

/// A message while it is written.
#[derive(Default)]
struct Message(Vec<u8>);

/// Encodes a document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let info = &document["info"];
    let mut encoded = Message::default();
    encoded.text(1, &document["swagger"]);
    encoded.message(2, Message::default().with_text(1, &info["title"]).with_text(2, &info["version"]));
    let mut paths = Message::default();
    for (path, item) in members(&document["paths"]) {
        paths.named(2, path, path_item(item));
    }
    encoded.message(8, paths);
    let mut definitions = Message::default();
    for (name, definition) in members(&document["definitions"]) {
        definitions.named(1, name, schema(definition));
    }
    encoded.message(9, definitions);
    for requirement in entries(&document["security"]) {
        let mut names = Message::default();
        for (name, _) in members(requirement) {
            names.named(1, name, Message::default());
        }
        encoded.message(12, names);
    }
    let mut security = Message::default();
    for (name, definition) in members(&document["securityDefinitions"]) {
        let mut api_key = Message::default();
        for (number, member) in [(1, "type"), (2, "name"), (3, "in"), (4, "description")] {
            api_key.text(number, &definition[member]);
        }
        let mut item = Message::default();
        item.message(2, api_key);
        security.named(1, name, item);
    }
    encoded.message(13, security);
    encoded.0
}

fn path_item(item: &Value) -> Message {
    let mut encoded = Message::default();
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if item[method].is_object() {
            encoded.message(number, operation(&item[method]));
        }
    }
    encoded.parameters(9, &item["parameters"]);
    encoded
}

fn operation(operation: &Value) -> Message {
    let mut encoded = Message::default();
    encoded.texts(1, &operation["tags"]);
    encoded.text(3, &operation["description"]);
    encoded.text(5, &operation["operationId"]);
    encoded.texts(6, &operation["produces"]);
    encoded.texts(7, &operation["consumes"]);
    encoded.parameters(8, &operation["parameters"]);
    let mut responses = Message::default();
    for (code, response) in members(&operation["responses"]) {
        let mut content = Message::default().with_text(1, &response["description"]);
        if response["schema"].is_object() {
            let mut item = Message::default();
            item.message(1, schema(&response["schema"]));
            content.message(2, item);
        }
        let mut value = Message::default();
        value.message(1, content);
        responses.named(1, code, value);
    }
    encoded.message(9, responses);
    encoded.texts(10, &operation["schemes"]);
    encoded.extensions(13, operation);
    encoded
}

fn parameter(parameter: &Value) -> Message {
    let mut encoded = Message::default();
    let place = parameter["in"].as_str().unwrap_or_default();
    if place == "body" {
        let mut body = Message::default();
        body.text(2, &parameter["name"]);
        body.text(3, &parameter["in"]);
        body.flag(4, &parameter["required"]);
        body.message(5, schema(&parameter["schema"]));
        encoded.message(1, body);
    } else {
        // The type and the last field of parameters in paths have other numbers than those in queries.
        let (choice, type_, unique_items) = if place == "path" { (4, 5, 19) } else { (3, 6, 20) };
        let mut content = Message::default();
        content.flag(1, &parameter["required"]);
        content.text(2, &parameter["in"]);
        content.text(4, &parameter["name"]);
        content.text(type_, &parameter["type"]);
        content.flag(unique_items, &parameter["uniqueItems"]);
        let mut other = Message::default();
        other.message(choice, content);
        encoded.message(2, other);
    }
    encoded
}

fn schema(schema: &Value) -> Message {
    let mut encoded = Message::default();
    for (number, member) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        encoded.text(number, &schema[member]);
    }
    for (number, member) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        encoded.double(number, &schema[member]);
    }
    for (number, member) in [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems")] {
        encoded.flag(number, &schema[member]);
    }
    let counts = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (number, member) in counts {
        encoded.integer(number, &schema[member]);
    }
    encoded.texts(19, &schema["required"]);
    for value in entries(&schema["enum"]) {
        encoded.message(20, any(value));
    }
    let additional = &schema["additionalProperties"];
    if additional.is_object() {
        let mut item = Message::default();
        item.message(1, self::schema(additional));
        encoded.message(21, item);
    } else if additional.is_boolean() {
        let mut item = Message::default();
        item.flag(2, additional);
        encoded.message(21, item);
    }
    if schema["type"].is_string() {
        encoded.message(22, Message::default().with_text(1, &schema["type"]));
    }
    if schema["items"].is_object() {
        let mut item = Message::default();
        item.message(1, self::schema(&schema["items"]));
        encoded.message(23, item);
    }
    if schema["properties"].is_object() {
        let mut properties = Message::default();
        for (name, property) in members(&schema["properties"]) {
            properties.named(1, name, self::schema(property));
        }
        encoded.message(25, properties);
    }
    encoded.extensions(31, schema);
    encoded
}

/// Any JSON: a message that holds it as YAML.
fn any(value: &Value) -> Message {
    let mut encoded = Message::default();
    encoded.bytes(2, value.to_string().as_bytes());
    encoded
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn entries(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

// === impl Message ===

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.varint(u64::from(number << 3 | 2));
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, number: u32, message: Message) {
        self.bytes(number, &message.0);
    }

    /// A pair of a name and a value, as all maps are encoded.
    fn named(&mut self, number: u32, name: &str, value: Message) {
        let mut pair = Message::default();
        pair.bytes(1, name.as_bytes());
        pair.message(2, value);
        self.message(number, pair);
    }

    fn with_text(mut self, number: u32, value: &Value) -> Message {
        self.text(number, value);
        self
    }

    fn text(&mut self, number: u32, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn texts(&mut self, number: u32, value: &Value) {
        entries(value).for_each(|entry| self.text(number, entry));
    }

    fn flag(&mut self, number: u32, value: &Value) {
        if value == &Value::Bool(true) {
            self.varint(u64::from(number << 3));
            self.varint(1);
        }
    }

    fn integer(&mut self, number: u32, value: &Value) {
        if let Some(value) = value.as_i64().filter(|value| *value != 0) {
            self.varint(u64::from(number << 3));
            self.varint(value as u64);
        }
    }

    fn double(&mut self, number: u32, value: &Value) {
        if let Some(value) = value.as_f64().filter(|value| *value != 0.0) {
            self.varint(u64::from(number << 3 | 1));
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    fn parameters(&mut self, number: u32, value: &Value) {
        for entry in entries(value) {
            let mut item = Message::default();
            item.message(1, parameter(entry));
            self.message(number, item);
        }
    }

    fn extensions(&mut self, number: u32, object: &Value) {
        for (name, value) in members(object).filter(|(name, _)| name.starts_with("x-")) {
            self.named(number, name, any(value));
        }
    }
}
