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

#[test]
fn documents_say_what_the_schema_says() {
    let schema: Value = serde_json::from_str(JSON_SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for document in samples() {
        let value = serde_json::to_value(&document).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert_eq!(errors, [] as [String; 0]);

        // The schema is no empty promise: without any one of its required fields the document is refused, and an
        // unknown field as well.
        for field in value.as_object().unwrap().keys() {
            let mut less = value.clone();
            less.as_object_mut().unwrap().remove(field);
            assert!(!validator.is_valid(&less), "valid without {field}");
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
            assert!(!validator.is_valid(&more), "valid with an unknown field in {path:?}");
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
