//! The files of the posts, and what becomes of their parts.

use super::*;

#[test]
fn every_figure_of_every_post_is_a_published_one_of_a_target_that_is_compared() {
    let posts = Post::all().unwrap();
    assert_eq!(
        posts.iter().map(|post| &*post.number).collect::<Vec<_>>(),
        ["000", "001", "002", "003", "004"]
    );
    for post in &posts {
        let source = post.source.as_ref().map(|id| {
            published::sources().iter().find(|source| source.id == *id).expect("the source is there")
        });
        for part in &post.part {
            let stand = part.stand(&Repeat::default());
            let Stand::Model(model) = stand else { panic!("a post is on a model") };
            model.device().unwrap();
        }
        for figure in &post.figure {
            for (target, table, row, column) in &figure.of {
                let published = source.and_then(|source| source.figure(*table, *row, *column));
                assert!(published.is_some_and(|figure| figure > 0.0), "{}: {figure:?}", post.number);
                assert!(post.part.iter().any(|part| part.targets.contains(target)), "{target}");
            }
        }
        assert_eq!(post.figure.is_empty(), post.number == "004");
    }
}

#[test]
fn a_post_is_named_by_its_number() {
    assert_eq!(Post::named("post-003").unwrap().number, "003");
    let why = Post::named("3").unwrap_err().to_string();
    assert!(why.contains("expected one of 000, 001, 002, 003, 004"), "{why}");
}

/// Two parts, of which each has a span and a target of its own, are one document, with the published figures of both.
#[test]
fn the_parts_are_one_document() {
    let text = r#"
        number = "9"
        about = "two parts"
        source = "refs-hard-disk-2016"
        [[part]]
        model = "sata-ssd"
        set = { capacity_bytes = "67108864" }
        targets = ["raw"]
        loads = ["diskspd -b4K -o4 -t1 -r -w100 -Su -W0 -c32M file"]
        seconds = 0.01
        [[part]]
        place = "elsewhere"
        model = "sata-ssd"
        targets = ["fat16"]
        loads = ["diskspd -b4K -o4 -t1 -r -w100 -Su -W0 -c32M file"]
        span = 16777216
        seconds = 0.01
        [[figure]]
        case = "file"
        direction = "write"
        unit = "IOPS"
        of = [["raw", 0, 0, 1], ["fat16 elsewhere", 0, 1, 1], ["ntfs", 0, 2, 1]]
    "#;
    let post: Post = toml::from_str(text).unwrap();
    let settings = vec![("capacity_bytes".to_owned(), "268435456".to_owned())];
    let document = post.repeat(&Repeat { settings, ..Repeat::default() }, &()).unwrap();
    assert!(document.targets.iter().map(|target| &*target.name).eq(["raw", "fat16 elsewhere"]));
    assert_eq!(document.results.len(), 2);
    let beside = document.published_beside.as_ref().unwrap();
    // What was not measured has no figure.
    assert_eq!(
        beside.figures.iter().map(|figure| figure.published).collect::<Vec<_>>(),
        [154.444216, 181.859695]
    );
    assert!(
        beside.figures.iter().zip(&document.results).all(|(figure, result)| figure.measured == result.iops)
    );
    assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);
}
