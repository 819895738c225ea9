//! The pages can be read by everybody: axe-core finds nothing on them, in light and in dark colours.

use crate::chromium::browse;
use crate::{endurance, sample};
use platter_lab::fleet::{Fleet, Key, Rates};
use platter_lab::report::html;
use std::process::Command;

/// The source of axe-core, as a Python package brings it.
fn axe() -> String {
    let find = "import axe_core_python, os; print(os.path.dirname(axe_core_python.__file__))";
    let output =
        Command::new("python3").args(["-c", find]).output().expect("python3 is needed for this test");
    assert!(output.status.success(), "the package axe-core-python of PyPI is needed for this test");
    let directory = String::from_utf8(output.stdout).unwrap();
    let source = std::fs::read_to_string(format!("{}/axe.min.js", directory.trim())).unwrap();
    assert!(!source.contains("</script"));
    source
}

/// What axe-core finds on a page: the rule, how many elements break it, and the first of them.
fn findings(axe: &str, page: &str) -> String {
    // What is folded is looked at too.
    let open = page.replace("<details", "<details open");
    let run = "axe.run(document,{resultTypes:['violations']}).then(found=>document.body.append('axe-core '+'ran: '+\
               found.violations.map(one=>one.id+' ('+one.nodes.length+': '+one.nodes[0].html+' '+\
               one.nodes[0].failureSummary+')').join('; ')+'. End of axe-core.'))";
    let page = open.replace("</body>", &format!("<script>{axe}</script><script>{run}</script></body>"));
    let (dom, complaints) = browse(&page, 1200);
    assert_eq!(complaints, [] as [String; 0]);
    let after = dom.split_once("axe-core ran: ").unwrap_or_else(|| panic!("axe-core did not end: {dom}")).1;
    after.split_once(". End of axe-core.").unwrap().0.to_owned()
}

/// A page as one sees it who asks for dark colours.
fn dark(page: &str) -> String {
    let dark = page.replace("@media(prefers-color-scheme:dark)", "@media all");
    assert_ne!(dark, page);
    dark
}

fn fleet() -> String {
    let mut fleet = Fleet::new(vec![Key::parse("device.model").unwrap()]);
    for number in 0..12 {
        let mut document = sample::two_volumes();
        document.environment.host = format!("node{number}");
        let speed = if number == 7 { 0.5 } else { 1.0 + f64::from(number) / 1000.0 };
        document.results.iter_mut().for_each(|result| result.iops *= speed);
        fleet.add(Rates::of(document.to_json().as_bytes()).unwrap());
    }
    fleet.summary().html()
}

#[test]
fn axe_core_finds_nothing_on_any_page() {
    let axe = axe();
    // Make sure that it finds something.
    let bad = "<!doctype html><html lang=en><head><title>x</title></head><body><main><h1>x</h1><img src=''>\
               <p style='color:#999;background:#fff'>pale</p></main></body></html>";
    let found = findings(&axe, bad);
    assert!(found.contains("image-alt") && found.contains("color-contrast"), "{found}");

    // The largest page takes by far the longest, and has the colours of the others.
    assert_eq!(findings(&axe, &html::render(&sample::full(), true)), "", "a full report");
    let pages = [
        ("a report of two volumes", html::render(&sample::two_volumes(), true)),
        ("many machines", fleet()),
        ("an endurance run", endurance::page()),
    ];
    for (name, page) in pages {
        assert_eq!(findings(&axe, &page), "", "{name}");
        assert_eq!(findings(&axe, &dark(&page)), "", "{name}, dark");
    }
}
