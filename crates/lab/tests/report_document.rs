//! The JSON document must read back unchanged, and conform to its published schema.

use crate::sample;
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

/// Returns where a document, given as JSON, violates the published schema.
pub(crate) fn violations(json: &str) -> Vec<String> {
    complaints(&serde_json::from_str(JSON_SCHEMA).unwrap(), &serde_json::from_str(json).unwrap())
}

/// Returns where a document violates its schema.
///
/// The check supports the keywords that the schema uses and fails on any other; a general validator would take minutes
/// to compile.
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
            // The only pattern in the schema is that of a time; only the positions of its digits are checked.
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
            "additionalProperties" if rule.is_object() => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    check(root, rule, value, &format!("{at}.{name}"), found);
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

        // Make sure that the schema is strict: without any one of its required fields the document is refused, and so
        // it is with an unknown field.
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
            "/results/0/runs/0/slices/0",
            "/results/1/estimates/0",
            "/settings/workloads/0",
            "/pairs/0",
        ] {
            let mut more = value.clone();
            // Some samples have no pairs.
            let Some(part) = more.pointer_mut(path) else {
                assert!(path == "/pairs/0" && document.pairs.is_empty(), "{path} is missing");
                continue;
            };
            part.as_object_mut().unwrap().insert("unknown".into(), Value::Null);
            assert!(!complaints(&schema, &more).is_empty(), "valid with an unknown field in {path:?}");
        }
    }
}

#[test]
fn ratios_answers_and_warnings_follow_from_the_slices() {
    let document = sample::full();
    for result in &document.results {
        assert_eq!(result.against("raw").is_none(), result.target == "raw");
        assert_eq!(result.against("refs").is_some(), result.target == "refs+integrity");
        assert_eq!(result.against("ntfs").is_some(), result.target == "refs");
        assert_eq!(result.score.is_some(), result.case.workload == "crystaldiskmark");
        for estimate in &result.estimates {
            let (low, high) = (estimate.low.unwrap(), estimate.high.unwrap());
            assert!(low <= estimate.ratio && estimate.ratio <= high && estimate.passes == 40);
            // All figures come from one estimate: the rates agree with the ratio, and the ratios agree with each other.
            let base = document.find(&estimate.base, &result.case).unwrap();
            assert!((result.mb_per_s / base.mb_per_s / estimate.ratio - 1.0).abs() < 1e-9);
        }
    }
    let answer = document.answer.join("\n");
    for part in
        ["refs against ntfs: ", "refs+integrity against refs: −", "of 176 comparisons show a real difference"]
    {
        assert!(answer.contains(part), "{part} is not in:\n{answer}");
    }
    assert!(document.warnings.iter().any(|warning| warning.contains("stalled")), "{:?}", document.warnings);
    let mut again = document.clone();
    again.conclude();
    assert_eq!(again, document);

    let volumes = sample::two_volumes();
    assert_eq!(volumes.settings.base, "fat32");
    assert!(
        volumes.results.iter().all(|result| result.target == "fat32" || result.against("fat32").is_some())
    );
}

/// If a target failed on the way, the others still have their ratios.
#[test]
fn a_target_with_fewer_slices_stands_alone() {
    let mut document = sample::quick();
    for result in document.results.iter_mut().filter(|result| result.target == "fat32") {
        result.runs[0].slices.truncate(3);
    }
    document.conclude();
    for result in &document.results {
        assert_eq!(result.against("raw").is_some(), result.target == "dir:/tmp");
        assert!(result.iops > 0.0);
    }
}

/// A target of which no I/O counts has no rate, and no ratio is made up for it.
#[test]
fn a_target_without_an_io_has_no_rate() {
    let mut document = sample::quick();
    for result in document.results.iter_mut().filter(|result| result.target == "fat32") {
        for run in &mut result.runs {
            run.iops = 0.0;
            run.slices.iter_mut().for_each(|slice| slice.iops = 0.0);
        }
    }
    document.conclude();
    for result in &document.results {
        let is_still = result.target == "fat32";
        assert_eq!((result.iops == 0.0, result.mb_per_s == 0.0), (is_still, is_still));
        assert_eq!(result.against("raw").is_some(), result.target == "dir:/tmp");
        let why = "nothing was measured: no request completed in the measured time";
        assert_eq!(result.warnings.iter().any(|warning| warning == why), is_still, "{:?}", result.warnings);
    }
}

/// A target that is faster than the device below it is either explained or called implausible.
#[test]
fn faster_than_raw_is_explained_or_doubted() {
    let mut document = sample::quick();
    for result in document.results.iter_mut().filter(|result| result.target != "raw") {
        for slice in &mut result.runs[0].slices {
            slice.iops *= 3.0;
        }
        if let Some(device) = result.runs[0].device.as_mut().filter(|_| result.case.name.contains("Q32")) {
            (device.reads, device.writes) = (device.reads / 8, device.writes / 8);
        }
    }
    document.conclude();
    let remarks: Vec<&str> = document
        .results
        .iter()
        .flat_map(|result| &result.estimates)
        .map(|estimate| estimate.remark.as_deref().unwrap())
        .collect();
    assert!(remarks.iter().any(|remark| remark.contains("one transfer for 8.0 of them")), "{remarks:?}");
    assert!(
        remarks
            .iter()
            .any(|remark| remark.contains("nothing that reached the storage explains it: implausible"))
    );
    assert!(remarks.iter().any(|remark| remark.contains("cannot be watched: implausible")));
}

#[test]
fn what_is_no_report_is_refused() {
    assert!(matches!(
        Document::from_json("{\"schema\":\"platter-report/9\"}"),
        Err(ReadError::Schema { .. })
    ));
    for text in ["", "null", "{}", "{\"schema\":\"platter-report/2\"}", "{\"schema\":1}"] {
        assert!(matches!(Document::from_json(text), Err(ReadError::Json(_))), "{text:?}");
    }
    // Numbers that JSON can express but a double cannot must not be read as infinity.
    let huge = sample::quick().to_json().replacen("\"seconds\": 60.0", "\"seconds\": 1e999", 1);
    assert!(Document::from_json(&huge).is_err());
}
