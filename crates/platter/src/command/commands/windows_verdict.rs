//! `platter windows-verdict`

use crate::command::failure::Outcome;
use crate::command::output::Output;
use crate::command::windows_kit::verdict::Verdict;
use clap::Args;
use std::path::PathBuf;

/// Judge what Windows said of the images of a kit
///
/// Prints a table in Markdown: a line for each image, a column for each step, and below it the reason of each step that
/// failed or was not run. With IMAGES, the directory that kit.ps1 filled, the volumes that Windows wrote to are checked
/// here too, and compared with the manifest and with what Windows says that it wrote.
///
/// Exit codes: 0 every step passed, 1 a step failed or was not run, 2 the file is no verdict, or wrong arguments.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The file that kit.ps1 left
    #[arg(value_name = "verdict.json")]
    verdict: PathBuf,
    /// The directory with the volumes that Windows wrote to, and the kit's manifest.json
    images: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let judgement = Verdict::read(&self.verdict)?.judge(self.images.as_deref())?;
        let mut output = Output::new();
        output.bytes(judgement.markdown().as_bytes())?;
        output.finish()?;
        Ok(u8::from(!judgement.all_pass()))
    }
}
