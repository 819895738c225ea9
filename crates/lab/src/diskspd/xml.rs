//! Reads and writes profiles as XML.
//!
//! Facts: `XmlProfileParser/diskspd.xsd` of DiskSpd 2.2 for the elements and their content, and the order in which
//! DiskSpd's unit tests expect the elements.

use super::profile::{Caches, Length, Profile, Target, Throughput, TimeSpan, WriteContent};
use quick_xml::escape::escape;
use quick_xml::events::{BytesStart, Event};
use std::fmt::{Display, Write};
use std::path::Path;

type Parsed<T> = Result<T, String>;

/// Limits that no real profile reaches.
const MOST_ELEMENTS: usize = 100_000;
const DEEPEST: usize = 16;

/// An XML element with its content.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    /// Parses a document and returns its root element.
    fn read(text: &str) -> Parsed<Element> {
        let mut reader = quick_xml::Reader::from_str(text);
        let mut open: Vec<Element> = Vec::new();
        let mut elements = 0;
        loop {
            let at = reader.buffer_position();
            let wrong = |what: &dyn Display| format!("byte {at}: {what}");
            let event = reader.read_event().map_err(|error| wrong(&error))?;
            let closed = match event {
                Event::Start(start) => {
                    elements += 1;
                    if open.len() == DEEPEST || elements > MOST_ELEMENTS {
                        return Err(wrong(&"more elements than a profile has"));
                    }
                    open.push(Element::begin(&start).map_err(|error| wrong(&error))?);
                    None
                }
                Event::Empty(start) => Some(Element::begin(&start).map_err(|error| wrong(&error))?),
                Event::End(_) => open.pop().map(|mut element| {
                    element.text = element.text.trim().to_owned();
                    element
                }),
                Event::Text(text) => {
                    if let Some(element) = open.last_mut() {
                        element.text += &text;
                    }
                    None
                }
                Event::CData(text) => {
                    if let Some(element) = open.last_mut() {
                        element.text += &text;
                    }
                    None
                }
                Event::GeneralRef(name) => {
                    let entity = format!("&{};", &*name);
                    let value = quick_xml::escape::unescape(&entity).map_err(|error| wrong(&error))?;
                    if let Some(element) = open.last_mut() {
                        element.text += &value;
                    }
                    None
                }
                Event::Eof => return Err(wrong(&"the document ends before its elements do")),
                _ => None,
            };
            let Some(element) = closed else { continue };
            match open.last_mut() {
                Some(parent) => parent.children.push(element),
                None => return Ok(element),
            }
        }
    }

    fn begin(start: &BytesStart<'_>) -> Parsed<Element> {
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let value = quick_xml::escape::unescape(&attribute.value).map_err(|error| error.to_string())?;
            attributes.push((attribute.key.as_ref().to_owned(), value.into_owned()));
        }
        Ok(Element { name: start.name().as_ref().to_owned(), attributes, ..Element::default() })
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn boolean(&self) -> Parsed<bool> {
        match self.text.as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            text => Err(self.wrong(&format_args!("expected true or false, found {text:?}"))),
        }
    }

    fn number(&self, most: u64) -> Parsed<u64> {
        let number = self.text.parse().ok().filter(|&number: &u64| number <= most);
        number
            .ok_or_else(|| self.wrong(&format_args!("expected a number up to {most}, found {:?}", self.text)))
    }

    fn small(&self) -> Parsed<u32> {
        self.number(u32::MAX.into()).map(|number| number as u32)
    }

    fn wrong(&self, what: &dyn Display) -> String {
        format!("<{}>: {what}", self.name)
    }

    /// Refuses an element with this reason, unless its value is false.
    fn must_be_off(&self, reason: &str) -> Parsed<()> {
        match self.boolean()? {
            false => Ok(()),
            true => Err(self.wrong(&reason)),
        }
    }

    fn unknown(&self, inside: &str) -> String {
        self.wrong(&format_args!("this element of <{inside}> is not understood"))
    }
}

impl Profile {
    /// Reads a profile from a file. `paths` replace the template paths `*1`, `*2` and so on.
    ///
    /// # Errors
    /// A sentence with the element.
    pub(super) fn from_file(path: &Path, paths: &[String]) -> Parsed<Profile> {
        let about = |error: &dyn Display| format!("{}: {error}", path.display());
        let text = crate::workload::read_text(path).map_err(|error| about(&error))?;
        Profile::from_xml(&text, paths).map_err(|error| about(&error))
    }

    /// Reads a profile from XML. `paths` replace the template paths `*1`, `*2` and so on.
    ///
    /// # Errors
    /// A sentence with the element.
    pub fn from_xml(text: &str, paths: &[String]) -> Parsed<Profile> {
        let root = Element::read(text.trim_start_matches('\u{feff}'))?;
        // The XML results of a run contain its profile.
        let inside = root.children.iter().find(|child| root.name == "Results" && child.name == "Profile");
        let root = inside.unwrap_or(&root);
        if root.name != "Profile" {
            return Err(root.wrong(&"expected <Profile>"));
        }
        let mut profile = Profile::new("diskspd -X".into());
        for child in &root.children {
            match child.name.as_str() {
                "TimeSpans" => {
                    for span in &child.children {
                        profile.time_spans.push(time_span(span, paths)?);
                    }
                }
                "Verbose" | "VerboseStats" => profile.verbose |= child.boolean()?,
                "Progress" => profile.progress = child.small()?,
                "ExperimentFlags" if child.number(1).is_ok() => {}
                "ResultFormat" => {
                    profile.xml = match child.text.as_str() {
                        "xml" => true,
                        "text" => false,
                        _ => return Err(child.wrong(&"expected text or xml")),
                    }
                }
                // The lab creates files before anything runs in any case.
                "PrecreateFiles" => {}
                "ETW" => return Err(child.wrong(&"event tracing is that of Windows")),
                _ => return Err(child.unknown("Profile")),
            }
        }
        if profile.time_spans.iter().all(|span| span.targets.is_empty()) {
            return Err("the profile has no target".into());
        }
        Ok(profile)
    }

    /// The profile as XML.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::default();
        self.write(&mut out);
        out.text
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.open("Profile");
        out.value("Progress", self.progress);
        out.value("ResultFormat", if self.xml { "xml" } else { "text" });
        out.value("Verbose", self.verbose);
        out.open("TimeSpans");
        self.time_spans.iter().for_each(|span| write_time_span(span, out));
        out.close("TimeSpans");
        out.close("Profile");
    }
}

fn time_span(element: &Element, paths: &[String]) -> Parsed<TimeSpan> {
    let mut span = TimeSpan::default();
    for child in &element.children {
        match child.name.as_str() {
            "Targets" => {
                for target_of in &child.children {
                    span.targets.push(target(target_of, paths)?);
                }
            }
            "Duration" => span.duration = child.small()?,
            "Warmup" => span.warmup = child.small()?,
            "Cooldown" => span.cooldown = child.small()?,
            "RandSeed" => span.seed = child.small()?,
            "RandomWriteData" => span.random_data = child.boolean()?,
            "ThreadCount" => span.threads = child.number(4096)? as u32,
            "RequestCount" => span.requests = child.number(crate::workload::MOST_DEPTH.into())? as u32,
            "GroupAffinity" => drop(child.boolean()?),
            "Affinity" => return Err(child.wrong(&"start platter itself with taskset")),
            "DisableAffinity" => span.affinity = !child.boolean()?,
            "CompletionRoutines" => span.completion_routines = child.boolean()?,
            "MeasureLatency" => span.latency = child.boolean()?,
            "CalculateIopsStdDev" => span.iops_deviation = child.boolean()?,
            "IoBucketDuration" => span.bucket = child.small()?.max(1),
            _ => return Err(child.unknown("TimeSpan")),
        }
    }
    match span.duration {
        0 => Err("<Duration>: expected at least 1 second".into()),
        _ => Ok(span),
    }
}

fn target(element: &Element, paths: &[String]) -> Parsed<Target> {
    let mut target = Target::default();
    for child in &element.children {
        match child.name.as_str() {
            "Path" => target.path = path(child, paths)?,
            "BlockSize" => target.block = child.small()?.into(),
            "StrideSize" => target.stride = Some(child.number(u64::MAX)?).filter(|&stride| stride > 0),
            "InterlockedSequential" => target.interlocked = child.boolean()?,
            "BaseFileOffset" => target.base = child.number(u64::MAX)?,
            "SequentialScan" => target.sequential_scan = child.boolean()?,
            "RandomAccess" => target.random_access = child.boolean()?,
            "TemporaryFile" => target.temporary = child.boolean()?,
            "UseLargePages" => target.large_pages = child.boolean()?,
            "RequestCount" => target.requests = child.number(crate::workload::MOST_DEPTH.into())? as u32,
            "Random" => target.random = Some(child.number(u64::MAX)?).filter(|&align| align > 0),
            "DisableAllCache" if child.boolean()? => {
                target.caches = Caches { no_buffering: true, write_through: true };
            }
            "DisableAllCache" => {}
            "DisableOSCache" => target.caches.no_buffering |= child.boolean()?,
            "WriteThrough" => target.caches.write_through |= child.boolean()?,
            "DisableLocalCache" => child.must_be_off("the caches of a remote file system are its own")?,
            "MemoryMappedIo" => child.must_be_off("I/O through mapped memory is not measured")?,
            "FlushType" => return Err(child.wrong(&"I/O through mapped memory is not measured")),
            "WriteBufferContent" => target.content = content(child)?,
            "BurstSize" => target.burst = child.small()?,
            "ThinkTime" => target.think = child.small()?,
            "Throughput" => {
                let rate = child.number(u64::MAX)?;
                let throughput = match child.attribute("unit") {
                    Some("IOPS") => Throughput::Iops(rate),
                    None | Some("BPMS") => Throughput::BytesPerMs(rate),
                    Some(_) => return Err(child.wrong(&"expected the unit IOPS or BPMS")),
                };
                target.throughput = Some(throughput).filter(|_| rate > 0);
            }
            "ThreadsPerFile" => target.threads = child.number(4096)? as u32,
            "FileSize" => target.size = child.number(u64::MAX)?,
            "MaxFileSize" => target.max = child.number(u64::MAX)?,
            "WriteRatio" => target.write_ratio = child.number(100)? as u8,
            "RandomRatio" => {
                target.random_ratio = Some(child.number(100)? as u8).filter(|&percent| percent < 100)
            }
            "ParallelAsyncIO" => child.must_be_off("outstanding I/Os follow each other")?,
            "ThreadStride" => target.thread_stride = child.number(u64::MAX)?,
            "IOPriority" if child.number(3)? == 3 => {}
            "IOPriority" => return Err(child.wrong(&"start platter itself with ionice")),
            "Weight" => match child.small()? {
                1 => {}
                _ => return Err(child.wrong(&"every target has the same weight")),
            },
            "ThreadTargets" => return Err(child.wrong(&"every target has its own threads")),
            "Distribution" => target.distribution = distribution(child)?,
            _ => return Err(child.unknown("Target")),
        }
    }
    if target.path.is_empty() {
        return Err("<Target>: expected a <Path>".into());
    }
    if target.block == 0 || target.threads == 0 || target.requests == 0 {
        return Err(
            "<Target>: expected at least 1 of <BlockSize>, <ThreadsPerFile> and <RequestCount>".into()
        );
    }
    if (target.burst == 0) != (target.think == 0) {
        return Err("<BurstSize> and <ThinkTime> need each other".into());
    }
    match target.random {
        // Random I/Os of a mixed or distributed load are aligned to the block size by default.
        None if target.random_ratio.is_some() || !target.distribution.is_empty() => {
            target.random = Some(target.block);
        }
        _ => {}
    }
    Ok(target)
}

/// Returns a target's path; for a template, the path on the command line that replaces it.
fn path(element: &Element, paths: &[String]) -> Parsed<String> {
    let Some(number) = element.text.strip_prefix('*') else { return Ok(element.text.clone()) };
    let number: usize = number.parse().map_err(|_| element.wrong(&"expected a number behind the *"))?;
    let found = number.checked_sub(1).and_then(|index| paths.get(index));
    found.cloned().ok_or_else(|| element.wrong(&format_args!("the command line has no target {number}")))
}

fn content(element: &Element) -> Parsed<WriteContent> {
    let mut content = WriteContent::default();
    for child in &element.children {
        match (child.name.as_str(), child.text.as_str()) {
            ("Pattern", "sequential") => {}
            ("Pattern", "random") => content = WriteContent::Random(0),
            ("Pattern", _) => {
                return Err(child.wrong(&"writes are never zeros here, as devices may not store those"));
            }
            ("RandomDataSource", _) => {
                for part in &child.children {
                    match part.name.as_str() {
                        "SizeInBytes" => content = WriteContent::Random(part.number(u64::MAX)?),
                        _ => {
                            return Err(
                                part.wrong(&"the content of writes is random, and not taken from a file")
                            );
                        }
                    }
                }
            }
            _ => return Err(child.unknown("WriteBufferContent")),
        }
    }
    Ok(content)
}

fn distribution(element: &Element) -> Parsed<Vec<(f64, Length)>> {
    let Some(kind) = element.children.first() else { return Err(element.wrong(&"it is empty")) };
    let mut parts = Vec::new();
    for range in &kind.children {
        let share =
            range.attribute("IO").and_then(|share| share.parse::<u8>().ok()).filter(|&share| share <= 100);
        let share = share.ok_or_else(|| range.wrong(&"expected IO=\"0\" to \"100\""))?;
        let length = match kind.name.as_str() {
            "Percent" => Length::Percent(range.number(100)? as f64),
            "Absolute" => Length::Bytes(range.number(u64::MAX)?),
            _ => return Err(kind.unknown("Distribution")),
        };
        parts.push((f64::from(share), length));
    }
    match parts.iter().map(|(share, _)| share).sum::<f64>() <= 100.0 {
        true => Ok(parts),
        false => Err(element.wrong(&"the shares are more than 100 % together")),
    }
}

/// Writes XML elements, each on a line of its own.
#[derive(Default)]
pub(super) struct Writer {
    pub text: String,
    depth: usize,
}

impl Writer {
    pub(super) fn open(&mut self, tag: &str) {
        let _ = writeln!(self.text, "{:1$}<{tag}>", "", self.depth * 2);
        self.depth += 1;
    }

    pub(super) fn close(&mut self, name: &str) {
        self.depth -= 1;
        let _ = writeln!(self.text, "{:1$}</{name}>", "", self.depth * 2);
    }

    pub(super) fn value(&mut self, name: &str, value: impl Display) {
        let value = value.to_string();
        let _ = writeln!(self.text, "{:2$}<{name}>{}</{name}>", "", escape(&value), self.depth * 2);
    }

    /// Writes elements that contain one value each, in order.
    pub(super) fn values(&mut self, values: &[(&str, &dyn Display)]) {
        values.iter().for_each(|(name, value)| self.value(name, value));
    }

    pub(super) fn line(&mut self, text: impl Display) {
        let _ = writeln!(self.text, "{:1$}{text}", "", self.depth * 2);
    }
}

fn write_time_span(span: &TimeSpan, out: &mut Writer) {
    out.open("TimeSpan");
    out.values(&[
        ("CompletionRoutines", &span.completion_routines),
        ("MeasureLatency", &span.latency),
        ("CalculateIopsStdDev", &span.iops_deviation),
        ("DisableAffinity", &!span.affinity),
        ("Duration", &span.duration),
        ("Warmup", &span.warmup),
        ("Cooldown", &span.cooldown),
        ("ThreadCount", &span.threads),
        ("RequestCount", &span.requests),
        ("IoBucketDuration", &span.bucket),
        ("RandSeed", &span.seed),
    ]);
    if span.random_data {
        out.value("RandomWriteData", true);
    }
    out.open("Targets");
    span.targets.iter().for_each(|target| write_target(target, out));
    out.close("Targets");
    out.close("TimeSpan");
}

fn write_target(target: &Target, out: &mut Writer) {
    out.open("Target");
    out.values(&[
        ("Path", &target.path),
        ("BlockSize", &target.block),
        ("BaseFileOffset", &target.base),
        ("SequentialScan", &target.sequential_scan),
        ("RandomAccess", &target.random_access),
        ("TemporaryFile", &target.temporary),
        ("UseLargePages", &target.large_pages),
    ]);
    if target.caches.no_buffering {
        out.value("DisableOSCache", true);
    }
    if target.caches.write_through {
        out.value("WriteThrough", true);
    }
    out.open("WriteBufferContent");
    match target.content {
        WriteContent::Sequence => out.value("Pattern", "sequential"),
        WriteContent::Random(bytes) => {
            out.value("Pattern", "random");
            if bytes > 0 {
                out.open("RandomDataSource");
                out.value("SizeInBytes", bytes);
                out.close("RandomDataSource");
            }
        }
    }
    out.close("WriteBufferContent");
    out.value("ParallelAsyncIO", false);
    if target.burst > 0 {
        out.values(&[("BurstSize", &target.burst), ("ThinkTime", &target.think)]);
    }
    if target.size > 0 {
        out.value("FileSize", target.size);
    }
    match target.random {
        Some(align) => {
            out.value("Random", align);
            if let Some(percent) = target.random_ratio {
                out.value("RandomRatio", percent);
            }
        }
        None => {
            let stride = target.stride.unwrap_or(target.block);
            out.values(&[("StrideSize", &stride), ("InterlockedSequential", &target.interlocked)]);
        }
    }
    out.values(&[
        ("ThreadStride", &target.thread_stride),
        ("MaxFileSize", &target.max),
        ("RequestCount", &target.requests),
        ("WriteRatio", &target.write_ratio),
    ]);
    match target.throughput {
        Some(Throughput::Iops(rate)) => {
            out.line(format_args!("<Throughput unit=\"IOPS\">{rate}</Throughput>"))
        }
        Some(Throughput::BytesPerMs(rate)) => out.value("Throughput", rate),
        None => out.value("Throughput", 0),
    }
    out.values(&[("ThreadsPerFile", &target.threads), ("IOPriority", &3), ("Weight", &target.weight)]);
    if let Some((_, first)) = target.distribution.first() {
        let kind = if matches!(first, Length::Percent(_)) { "Percent" } else { "Absolute" };
        out.open("Distribution");
        out.open(kind);
        for (share, length) in &target.distribution {
            let length = match length {
                Length::Percent(percent) => *percent as u64,
                Length::Bytes(bytes) => *bytes,
            };
            out.line(format_args!("<Range IO=\"{share}\">{length}</Range>"));
        }
        out.close(kind);
        out.close("Distribution");
    }
    out.close("Target");
}
