//! The document is the truth: it must read back unchanged, and say what its published schema says.

mod sample;

use platter_lab::report::Document;
use platter_lab::report::document::{JSON_SCHEMA, ReadError};
use serde_json::Value;

fn samples() -> [Document; 3] {
    [sample::full(), sample::quick(), sample::two_volumes()]
}

#[test]
fn documents_read_back_unchanged() {
    for document in samples() {
        assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);
    }
}

#[test]
fn concluding_again_changes_nothing() {
    for document in samples() {
        let mut again = document.clone();
        again.conclude();
        assert_eq!(again, document);
    }
}

/// What a document says that its schema does not allow.
///
/// Knows the keywords that the schema uses and fails on any other; a general validator would cost minutes to build.
fn complaints(schema: &Value, document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, document, "$", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let mut own = Vec::new();
    let mut complain = |what: String| own.push(format!("{at}: {what}"));
    let number = |limit: &Value| limit.as_f64().unwrap();
    let keywords = schema.as_object().unwrap();
    for (keyword, rule) in keywords {
        match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let target = rule.as_str().unwrap().strip_prefix('#').unwrap();
                check(root, root.pointer(target).expect("the reference leads somewhere"), value, at, found);
            }
            "type" => {
                let fits = match rule.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "number" => value.is_number(),
                    other => panic!("type {other} is not known here"),
                };
                if !fits {
                    complain(format!("{value} is no {rule}"));
                }
            }
            "const" if value != rule => complain(format!("{value} is not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => {
                complain(format!("{value} is none of {rule}"))
            }
            "minimum" if value.as_f64().is_some_and(|value| value < number(rule)) => {
                complain(format!("{value} < {rule}"))
            }
            "maximum" if value.as_f64().is_some_and(|value| value > number(rule)) => {
                complain(format!("{value} > {rule}"))
            }
            "maxItems" if value.as_array().is_some_and(|items| items.len() as f64 > number(rule)) => {
                complain(format!("more than {rule} items"));
            }
            // The only pattern is that of a time: digits stand for digits, the rest for itself.
            "pattern" => {
                let shape: String = value
                    .as_str()
                    .unwrap_or("")
                    .chars()
                    .map(|c| if c.is_ascii_digit() { '0' } else { c })
                    .collect();
                if shape != "0000-00-00T00:00:00Z" {
                    complain(format!("{value} is no time"));
                }
            }
            "const" | "enum" | "minimum" | "maximum" | "maxItems" => {}
            "required" => {
                for name in rule.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        complain(format!("{name} is missing"));
                    }
                }
            }
            "additionalProperties" => {
                assert_eq!(rule, &Value::Bool(false));
                for name in value.as_object().into_iter().flatten().map(|(name, _)| name) {
                    if keywords["properties"].get(name).is_none() {
                        complain(format!("{name:?} is unknown"));
                    }
                }
            }
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        check(root, schema, value, &format!("{at}.{name}"), found);
                    }
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{at}[{index}]"), found);
                }
            }
            other => panic!("keyword {other} is not known here"),
        }
    }
    found.extend(own);
}

#[test]
fn documents_say_what_the_schema_says() {
    let schema: Value = serde_json::from_str(JSON_SCHEMA).unwrap();
    for document in samples() {
        let value = serde_json::to_value(&document).unwrap();
        assert_eq!(complaints(&schema, &value), [] as [String; 0]);

        // The schema is no empty promise: without any one of its required fields the document is refused, and an
        // unknown field as well.
        for field in value.as_object().unwrap().keys() {
            let mut less = value.clone();
            less.as_object_mut().unwrap().remove(field);
            assert!(!complaints(&schema, &less).is_empty(), "valid without {field}");
        }
        for path in [
            "",
            "/environment",
            "/environment/device",
            "/settings",
            "/targets/0",
            "/results/0",
            "/results/0/runs/0",
            "/results/0/runs/0/cpu",
            "/results/0/runs/0/timeline/0",
            "/results/0/spread",
            "/verdicts/0",
        ] {
            let mut more = value.clone();
            more.pointer_mut(path).unwrap().as_object_mut().unwrap().insert("unknown".into(), Value::Null);
            assert!(!complaints(&schema, &more).is_empty(), "valid with an unknown field in {path:?}");
        }
    }
}

#[test]
fn ratios_verdicts_and_warnings_follow_from_the_runs() {
    let document = sample::full();
    for result in &document.results {
        assert_eq!(result.relative_to_raw.is_none(), result.target == "raw");
        assert_eq!(result.score.is_some(), result.case.workload == "crystaldiskmark");
    }
    assert_eq!(document.verdicts.len(), 2);
    let iometer = &document.verdicts[0];
    assert_eq!(iometer.targets.len(), 3);
    assert!(iometer.sentence.starts_with("fat32 reaches "), "{}", iometer.sentence);
    assert!(document.warnings.iter().any(|warning| warning.contains("stalled")), "{:?}", document.warnings);

    let volumes = sample::two_volumes();
    assert!(volumes.results.iter().all(|result| result.relative_to_raw.is_none()));
    assert_eq!(volumes.verdicts[0].targets[0].baseline, "fat32");
    assert!(volumes.warnings[0].contains("--repeat"));
}

#[test]
fn what_is_no_report_is_refused() {
    assert!(matches!(
        Document::from_json("{\"schema\":\"platter-report/9\"}"),
        Err(ReadError::Schema { .. })
    ));
    for text in ["", "null", "{}", "{\"schema\":\"platter-report/1\"}", "{\"schema\":1}"] {
        assert!(matches!(Document::from_json(text), Err(ReadError::Json(_))), "{text:?}");
    }
    // Numbers that JSON can write and a double cannot hold must not come in as infinity.
    let huge =
        sample::quick().to_json().replacen("\"seconds_per_run\": 60.0", "\"seconds_per_run\": 1e999", 1);
    assert!(Document::from_json(&huge).is_err());
}
