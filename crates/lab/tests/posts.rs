//! The published comparisons, repeated on models in virtual time.

use crate::report_document::violations;
use platter_lab::jetstress::{Jetstress, Volumes};
use platter_lab::model::Model;
use platter_lab::post::{Post, Repeat};
use platter_lab::report::{Document, html, markdown, terminal};
use platter_lab::{Preset, Stand};
use std::time::Duration;

fn repeated(number: &str, milliseconds: u64) -> Document {
    let time = Some(Duration::from_millis(milliseconds));
    Post::named(number).unwrap().repeat(&Repeat { time, ..Repeat::default() }, &()).unwrap()
}

/// The published figure and the model's of a target.
fn figures(document: &Document, target: &str, unit: &str) -> (f64, f64) {
    let mut figures = document.published_beside.as_ref().unwrap().figures.iter();
    let figure = figures.find(|figure| figure.target == target && figure.unit == unit).unwrap();
    (figure.published, figure.measured)
}

#[test]
fn the_array_has_what_was_published_beside_it() {
    let document = repeated("001", 30);
    let (published, model) = figures(&document, "raw", "IOPS");
    assert!((0.95..1.05).contains(&(model / published)), "{model}");
    // Without integrity the array sees what is asked for; with it, whole clusters.
    let (_, seen) = figures(&document, "refs:64k", "IOPS of the device");
    let (_, asked) = figures(&document, "refs:64k", "IOPS");
    assert!((0.99..1.02).contains(&(seen / asked)), "{seen} {asked}");
    let texts = [
        terminal::render(&document, terminal::View::default()),
        markdown::render(&document, false),
        html::render(&document, false),
    ];
    for text in texts {
        assert!(text.contains("Published and modelled, post 001") && text.contains("142,420"), "{text}");
    }
    assert_eq!(violations(&document.to_json()), [] as [String; 0]);
}

/// The model of its storage is fitted to these figures: what can fail here is that the load or NTFS changes.
#[test]
fn databases_on_ntfs_have_the_rates_that_the_model_was_fitted_to() {
    let jetstress = Jetstress {
        stand: Stand::Model(Model { name: "nutanix".into(), settings: Vec::new() }),
        volumes: vec!["db=ntfs:64k,log=ntfs:4k".parse::<Volumes>().unwrap()],
        preset: Preset::Quick,
        repeats: 1,
        time: Some(Duration::from_secs(1)),
        threads: vec![8, 16, 96],
        base: None,
        discard: false,
        command: String::new(),
    };
    let document = platter_lab::jetstress::run(&jetstress, &()).unwrap();
    for (case, published) in [("8 threads", 4079.0), ("16 threads", 7288.0), ("96 threads", 17758.0)] {
        let result = document.results.iter().find(|result| result.case.name == case).unwrap();
        assert!((0.95..1.05).contains(&(result.iops / published)), "{case}: {} {published}", result.iops);
    }
}
