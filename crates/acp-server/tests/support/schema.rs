//! The schema of the protocol, and whether a message follows it.
//!
//! The validator knows the keywords this schema uses and refuses to work with any other. It is stricter than the schema
//! in one point: a member that no part of the schema names is an error, because what is not in the protocol belongs
//! under `_meta`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

/// The schema's text.
pub const TEXT: &str = include_str!("../../schema/v1-1.17.0.json");

static SCHEMA: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(TEXT).unwrap());

/// The types of the schema by name.
pub fn types() -> &'static Map<String, Value> {
    SCHEMA["$defs"].as_object().unwrap()
}

/// The type of a method's params (`Request`, `Notification`) or result (`Response`).
pub fn type_of(method: &str, ending: &[&str]) -> Option<&'static str> {
    let of = |(name, def): &(&'static String, &'static Value)| {
        def["x-method"] == method && ending.iter().any(|ending| name.ends_with(ending))
    };
    types().iter().find(of).map(|(name, _)| name.as_str())
}

/// Why a value is not of a type.
pub fn check(name: &str, value: &Value) -> Result<(), String> {
    whole(&types()[name], value).map_err(|error| format!("{name}{error}"))
}

/// Members that parts of a schema have named; none when any name will do.
type Named = Option<BTreeSet<String>>;

fn whole(schema: &Value, value: &Value) -> Result<(), String> {
    let named = part(schema, value)?;
    if let (Some(named), Some(members)) = (named, value.as_object())
        && let Some(stranger) = members.keys().find(|key| !named.contains(*key))
    {
        return Err(format!(": nothing is called {stranger}"));
    }
    Ok(())
}

fn part(schema: &Value, value: &Value) -> Result<Named, String> {
    let Value::Object(schema) = schema else {
        return if *schema == true { Ok(None) } else { Err(": nothing is allowed here".to_owned()) };
    };
    let mut named = Some(BTreeSet::new());
    // A schema that names no member takes any.
    let mut closed = false;
    let mut join = |other: Named| match (&mut named, other) {
        (Some(all), Some(more)) => all.extend(more),
        _ => named = None,
    };
    if let Some(required) = schema.get("required").and_then(Value::as_array) {
        for field in required {
            let field = field.as_str().unwrap();
            if value.as_object().is_some_and(|members| !members.contains_key(field)) {
                return Err(format!(": {field} is missing"));
            }
        }
    }
    if let (Some(properties), Some(members)) = (schema.get("properties"), value.as_object()) {
        closed = true;
        for (key, property) in properties.as_object().unwrap() {
            if let Some(member) = members.get(key) {
                whole(property, member).map_err(|error| format!(".{key}{error}"))?;
            }
            join(Some(BTreeSet::from([key.clone()])));
        }
    }
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "required" | "properties" | "$schema" | "$defs" | "format" | "default" | "title"
            | "discriminator" => {}
            "unevaluatedProperties" => join(None),
            "type" => {
                let kinds = rule.as_array().map_or_else(|| vec![rule], |kinds| kinds.iter().collect());
                if !kinds.iter().any(|kind| is(kind.as_str().unwrap(), value)) {
                    return Err(format!(": is not of type {rule}"));
                }
            }
            "const" if rule == value => {}
            "const" => return Err(format!(": is not {rule}")),
            "minimum" | "maximum" => {
                let (number, bound) = (value.as_f64().unwrap_or_default(), rule.as_f64().unwrap());
                if (keyword == "minimum" && number < bound) || (keyword == "maximum" && number > bound) {
                    return Err(format!(": is beyond {rule}"));
                }
            }
            "minLength" => {
                if value.as_str().is_some_and(|text| (text.len() as u64) < rule.as_u64().unwrap()) {
                    return Err(": is too short".to_owned());
                }
            }
            "$ref" => {
                closed = true;
                let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                join(part(&types()[name], value)?);
            }
            "additionalProperties" => {
                for (key, member) in value.as_object().into_iter().flatten() {
                    if schema.get("properties").is_none_or(|known| known.get(key).is_none()) {
                        whole(rule, member).map_err(|error| format!(".{key}{error}"))?;
                    }
                }
                join(None);
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    whole(rule, item).map_err(|error| format!("[{index}]{error}"))?;
                }
            }
            "anyOf" | "oneOf" => {
                closed = true;
                let tried: Vec<_> = rule.as_array().unwrap().iter().map(|one| part(one, value)).collect();
                let fitting: Vec<_> = tried.iter().filter_map(|one| one.as_ref().ok()).collect();
                if fitting.is_empty() || (keyword == "oneOf" && fitting.len() != 1) {
                    let errors: Vec<_> = tried.iter().filter_map(|one| one.as_ref().err()).collect();
                    return Err(format!(": fits {} of {keyword}: {errors:?}", fitting.len()));
                }
                for one in fitting {
                    join(one.clone());
                }
            }
            "not" => {
                if part(rule, value).is_ok() {
                    return Err(": is what it must not be".to_owned());
                }
            }
            other => assert!(other.starts_with("x-"), "the validator does not know {other}"),
        }
    }
    Ok(if closed { named } else { None })
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no such type: {other}"),
    }
}
