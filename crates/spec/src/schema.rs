//! The JSON Schema of spec files: what an editor checks while one is written.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::Draft;

/// The JSON Schema of a spec file (draft 2020-12). Committed as `docs/spec.schema.json`.
pub fn schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Draft>().to_value()
}

/// A short text form, or the form that it stands for.
pub(crate) fn text_or<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let form = generator.subschema_for::<T>();
    json_schema!({ "anyOf": [{ "type": ["string", "null"] }, form] })
}

/// A number, a short text form, or the form that it stands for.
pub(crate) fn number_text_or<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let form = generator.subschema_for::<T>();
    json_schema!({ "anyOf": [{ "type": ["integer", "string", "null"] }, form] })
}

/// Names to texts; plain numbers are taken as written.
pub(crate) fn texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": { "type": ["string", "number", "boolean"] },
        "default": {}
    })
}

pub(crate) fn one_or_more_texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "array", "null"], "items": { "type": "string" } })
}

/// A list of limits, a single one, or a map.
pub(crate) fn slo(_: &mut SchemaGenerator) -> Schema {
    let limit = json_schema!({
        "type": "string",
        "description": "a limit on each request (ttft<=500ms) or on a statistic (p99(tpot)<=50ms, error_rate<=1%)"
    });
    let list = json_schema!({ "type": "array", "items": limit });
    json_schema!({ "anyOf": [
        list,
        limit,
        {
            "type": "object",
            "additionalProperties": false,
            "properties": { "joint": list, "marginal": list, "attain": share() }
        }
    ] })
}

fn share() -> Schema {
    json_schema!({
        "type": ["string", "number", "null"],
        "description": "share of offered requests that must be good, for example 95% or 0.95"
    })
}

/// `attain` may stand beside a list of limits.
pub(crate) fn top_level(schema: &mut Schema) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert("attain".to_owned(), share().to_value());
    }
}
