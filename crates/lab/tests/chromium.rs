//! Pages in a real browser.

use std::process::{Command, Output};

/// Opens a page in headless Chromium. Returns the page's DOM after its scripts ran, and the messages of the console.
/// Chromium has crashed once in thousands of starts and hung once for minutes, on pages that it showed before and after,
/// so a page fails only if Chromium does so three times.
pub(crate) fn browse(page: &str, width: u32) -> (String, Vec<String>) {
    let mut deaths = Vec::new();
    while deaths.len() < 3 {
        let output = run_chromium(page, width);
        let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if dom.contains("</html>") {
            let complaints = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
            return (dom.into_owned(), complaints);
        }
        deaths.push(format!("{}:\n{log}", output.status));
    }
    panic!("chromium showed nothing, {} times:\n{}", deaths.len(), deaths.join("\n"));
}

fn run_chromium(page: &str, width: u32) -> Output {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("page.html");
    std::fs::write(&file, page).unwrap();
    // A start takes a second or two, and axe-core on a large page a quarter of a minute on a quiet machine.
    Command::new("timeout")
        .args(["--kill-after=5", "240", "chromium"])
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--no-first-run", "--hide-scrollbars"])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--v=0", "--dump-dom"])
        // Scripts that wait go on at once.
        .arg("--virtual-time-budget=60000")
        .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
        .arg(format!("--window-size={width},1000"))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect(
            "chromium and timeout are needed to test the page; Debian: apt-get install chromium coreutils",
        )
}
