//! The comparison: every workload on every target, in short slices that alternate between the targets.
//!
//! Every target is made ready first, each in a region of its own. Then, case by case, all targets have short slices one
//! after the other, in an order that is balanced against place and carry-over ([`order`]), so that a disturbance of the
//! machine affects all of them alike. Where the device has no room for a region each, one region is made anew for each
//! target one after the other, and all cases run on it before the next target; a pass is a whole round then.

pub(crate) mod gather;
pub(crate) mod machine;
pub(crate) mod noise;
pub(crate) mod order;
mod precondition;
mod provided;
mod rest;
#[cfg(test)]
mod tests;

use crate::document::{self as report, Document, RAW, Settings, WorkloadSettings};
use crate::environment::{device_info, environment};
use crate::estimate::LEAST_PASSES;
use crate::plan::{self, CheckedComparison};
use crate::stand::{NO_DEVICE, OpenStand, Region};
use crate::target::{Ready, Target};
use crate::workload::{Case, Workload};
use crate::{Comparison, Error, Issued, Job, Measured, Pattern, Result, Session, Stop, Watch};
use gather::{Gathered, report_case};
use machine::Machine;
use noise::Noise;
use order::Orders;
use platter_device::{Caching, Recorder, sync};
use rest::{Busy, Rests};
use std::time::{Duration, Instant, SystemTime};

/// An observer of a comparison, which is told its progress and may end it.
pub trait Observer: Sync {
    /// A step begins, for example "fat32: formatting"; `done` is the time spent so far, `total` the time that the whole
    /// comparison is expected to take.
    fn stage(&self, what: &str, done: Duration, total: Duration);
    /// A round of a case ended on a target, with these rates.
    fn result(&self, target: &str, workload: &str, case: &str, iops: f64, mb_per_s: f64);
    /// A slice of a case was measured on a target; for a case that runs in one piece, the whole run.
    fn measured(&self, _target: &str, _workload: &Workload, _case: &Case, _measured: &Measured) {}
    /// Something that the user should know while the comparison runs, as a sentence: that the machine is not quiet enough.
    fn notice(&self, _sentence: &str) {}
    /// Called between slices: whether to end now, with the measurements so far.
    fn stop(&self) -> bool {
        false
    }
}

/// An observer that ignores progress and never ends the comparison.
impl Observer for () {
    fn stage(&self, _what: &str, _done: Duration, _total: Duration) {}
    fn result(&self, _target: &str, _workload: &str, _case: &str, _iops: f64, _mb_per_s: f64) {}
}

/// Fails if the observer wants to end while nothing is measured yet.
pub(crate) fn go_on(observer: &dyn Observer) -> Result<()> {
    if observer.stop() { Err(Error::Interrupted) } else { Ok(()) }
}

/// The length of a slice, if the time of a case allows [`PASSES`] of them.
const SLICE: Duration = Duration::from_millis(60);
/// The limits on the length of a slice.
const SHORTEST: Duration = Duration::from_millis(30);
const LONGEST: Duration = Duration::from_millis(200);
/// With this many passes, a difference of a tenth is found on a quiet machine. Longer cases have up to three times as
/// many passes before their slices become longer.
const PASSES: u32 = 20;

// As many passes as are usual are enough to tell outliers by.
const _: () = assert!(PASSES as usize >= 2 * crate::estimate::LEAST_PASSES);

/// The least number of I/Os in a slice of the slowest target, if [`LONGEST`] allows it.
const LEAST_IOS: f64 = 32.0;

/// If a difference is to be told and no time is chosen, a case has at most this many times its own time.
const PATIENCE: u32 = 10;
/// Before a slice is measured, load runs for this fraction of its length (one part in so many), at most for the time
/// below: queues fill and processor caches warm up.
const SETTLE_PART: u32 = 4;
const SETTLE_MOST: Duration = Duration::from_millis(50);

/// The bytes of each test file that are written before it is the next file's turn.
const FILE_PIECE: u64 = 16 << 20;

/// The time to format and write a span once, estimated for the progress bar only.
fn span_time(span: u64) -> Duration {
    const RATE: f64 = 800e6;
    Duration::from_secs_f64(span as f64 / RATE)
}

/// Carries out a comparison.
///
/// # Errors
/// An error that occurs before anything was measured. After that, errors end or reduce the comparison but the
/// measurements are kept: the document is [partial](Document::partial) and states why. Blocks that do not read back as
/// written are warnings of the document, and are counted in its runs.
pub fn compare(comparison: &Comparison, observer: &dyn Observer) -> Result<Document> {
    let provided = provided::provide(comparison, observer)?;
    let mut document = carry_out(&provided.comparison, observer)?;
    document.warnings.extend(provided.end());
    Ok(document)
}

fn carry_out(comparison: &Comparison, observer: &dyn Observer) -> Result<Document> {
    let _time = comparison.stand.begin_virtual_time();
    let CheckedComparison { comparison, names, caching, mut warnings, share } = plan::check(comparison)?;
    let span = plan::largest_span(&comparison);
    let on_device = comparison.targets.iter().filter(|target| target.is_on_device()).count() as u64;
    let is_mounted = comparison.targets.iter().any(Target::is_mounted);
    let mut stand = OpenStand::open(&comparison.stand, span, share, on_device, caching, is_mounted)?;
    if comparison.discard {
        stand.discard_first();
    }
    if !stand.direct && caching != Caching::Buffered {
        warnings.push(format!(
            "{} was measured through the page cache: the file system that holds it has no direct I/O",
            stand.name
        ));
    }
    let own_regions = stand.places.len() as u64 >= on_device;
    if is_mounted && own_regions && on_device > 1 {
        warnings.push(format!(
            "the regions of {} lie one after the other, since what is mounted needs a block device of its own: where places of \
             a device differ in speed, that is in the ratios",
            stand.name
        ));
    }
    if own_regions && comparison.targets.len() > 1 && !sync::is_virtual() {
        warnings.extend(comparison.workloads.iter().filter_map(about_pace));
    }
    let mut course = Course::new(&comparison, &stand, observer, names, span, own_regions, warnings);
    let outcome = if own_regions { course.together() } else { course.in_turns() };
    match outcome {
        Err(error) if course.gathered.is_empty() => return Err(error),
        Ok(()) if course.gathered.is_empty() && observer.stop() => return Err(Error::Interrupted),
        Ok(()) if course.gathered.is_empty() => return Err(Error::Unmeasured(course.reasons())),
        Err(error) => course.partial.push(error.to_string()),
        Ok(()) => {}
    }
    course.warnings.extend(stand.failures());
    let document = course.document();
    stand.keep();
    Ok(document)
}

/// How the time of a case on each target is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cut {
    /// In one piece.
    Whole,
    /// In slices of this length.
    Slices(Duration),
    /// In slices of so many I/Os of a recorded load: in each pass all targets have the same ones.
    Counts(u64),
}

impl Cut {
    /// When a turn of a case ends.
    fn stop(self, case: &Case) -> Stop {
        match (self, case.count) {
            (Cut::Slices(length), _) => Stop::Slice(length),
            (Cut::Counts(each), _) => Stop::Count(each),
            (Cut::Whole, Some(count)) if case.time.is_zero() => Stop::Count(count),
            (Cut::Whole, Some(count)) => Stop::Within { count, time: case.time },
            (Cut::Whole, None) => Stop::After(case.time),
        }
    }

    /// The division in the present time: in virtual time nothing disturbs a target, and so each case is one piece.
    fn here(group: &[Case], targets: usize) -> Cut {
        if sync::is_virtual() { Cut::Whole } else { Cut::of(group, targets) }
    }

    /// Chooses the division for cases that run at the same time.
    fn of(group: &[Case], targets: usize) -> Cut {
        if let ([case], 2..) = (group, targets)
            && case.pattern.shape.script.is_some()
            && case.time.is_zero()
            && let Some(count) = case.count
        {
            let each = count.div_ceil(u64::from(PASSES)).max(LEAST_IOS as u64);
            return if each * LEAST_PASSES as u64 <= count { Cut::Counts(each) } else { Cut::Whole };
        }
        let least = SHORTEST * 4;
        let time = time_of(group);
        // A case that ends at another time than the cases beside it has to run in one piece to its end.
        let is_cut = |case: &Case| {
            case.count.is_none() && !case.continuous && case.time == time && !is_slow(&case.pattern)
        };
        if targets < 2 || time < least || !group.iter().all(is_cut) {
            return Cut::Whole;
        }
        // A case that is too short for all passes has shorter slices, a long one longer ones.
        let length = SLICE.min(time / PASSES).max(time / (3 * PASSES));
        Cut::Slices(length.clamp(SHORTEST, LONGEST))
    }

    /// Returns slices long enough for the slowest target, which made `iops` I/Os per second in a trial.
    fn for_rate(self, iops: f64) -> Cut {
        match self {
            Cut::Slices(length) if iops > 0.0 => {
                let needed = Duration::from_secs_f64((LEAST_IOS / iops).min(1.0));
                Cut::Slices(length.max(needed).min(LONGEST))
            }
            Cut::Slices(_) => Cut::Slices(LONGEST),
            Cut::Whole | Cut::Counts(_) => self,
        }
    }

    fn passes(self, group: &[Case]) -> u32 {
        match self {
            Cut::Whole => 1,
            Cut::Counts(each) => {
                let count = group.iter().filter_map(|case| case.count).max().unwrap_or(each);
                u32::try_from(count.div_ceil(each)).unwrap_or(u32::MAX)
            }
            Cut::Slices(length) => {
                time_of(group).as_secs_f64().div_euclid(length.as_secs_f64()).max(1.0) as u32
            }
        }
    }
}

/// Whether the load itself asks for so few I/Os that slices cannot show its rate: with a low rate too few of them fall
/// into a slice, and with pauses a slice may lie in one or miss them all.
fn is_slow(pattern: &Pattern) -> bool {
    let is_low = |rate: f64| rate * LONGEST.as_secs_f64() < LEAST_IOS;
    pattern.pauses() || pattern.most_iops().is_some_and(is_low)
}

/// A sentence about the cases that run in one piece on each target because of their pace; `None` if there are none.
fn about_pace(workload: &Workload) -> Option<String> {
    let slow = workload.cases.iter().filter(|case| case.count.is_none() && is_slow(&case.pattern));
    let names: Vec<&str> = slow.map(|case| case.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}: {} ran in one piece on one target after the other, since its rate or its pauses leave too few I/Os for \
             alternating slices: more rounds (--repeat) tell how far chance goes",
            workload.name,
            names.join(", ")
        )
    })
}

/// The measured time of cases that run at the same time; zero if all end by count.
fn time_of(group: &[Case]) -> Duration {
    group.iter().map(|case| case.time).max().unwrap_or_default()
}

/// The time of recorded loads at their own pace, which end by count.
fn paced_time(group: &[Case]) -> Duration {
    let scripts =
        group.iter().filter(|case| case.time.is_zero()).filter_map(|case| case.pattern.shape.script.as_ref());
    scripts.filter(|script| script.is_paced).map(|script| script.time()).max().unwrap_or_default()
}

/// The ramp-up of cases that run at the same time: the longest of them.
fn ramp_up_of(group: &[Case]) -> Duration {
    group.iter().map(|case| case.ramp_up).max().unwrap_or_default()
}

/// The time that load runs before a slice of this length is measured.
fn settling(slice: Duration) -> Duration {
    (slice / SETTLE_PART).min(SETTLE_MOST)
}

/// The parameters of one slice, the same for every target of a pass.
struct Turn<'t> {
    ramp_up: Duration,
    stops: &'t [Stop],
    /// Whether it is one of several slices although it ends by count.
    is_part: bool,
    workload: &'t Workload,
    /// The cases, which run at the same time.
    group: &'t [Case],
    label: &'t str,
}

/// A target that is ready to be measured.
struct Member {
    /// The target's name in reports.
    name: String,
    ready: Ready,
    /// The read that keeps the target's volume busy while other targets are measured.
    busy: Option<Busy>,
}

/// A comparison that is being carried out.
struct Course<'a> {
    comparison: &'a Comparison,
    stand: &'a OpenStand,
    observer: &'a dyn Observer,
    names: Vec<String>,
    span: u64,
    /// Whether each target has a region of its own.
    own_regions: bool,
    began: Instant,
    started: SystemTime,
    machine: Machine,
    expected: Duration,
    spent: Duration,
    targets: Vec<report::Target>,
    gathered: Vec<Gathered>,
    warnings: Vec<String>,
    /// The reasons why less was measured than was asked for.
    partial: Vec<String>,
    /// The targets that failed and were left out, with the reasons.
    failed: Vec<(String, String)>,
    /// The pauses between cases, in which volumes do their own work.
    rests: Rests,
    preconditioning: Option<report::Preconditioning>,
    noise: Noise,
}

impl<'a> Course<'a> {
    fn new(
        comparison: &'a Comparison,
        stand: &'a OpenStand,
        observer: &'a dyn Observer,
        names: Vec<String>,
        span: u64,
        own_regions: bool,
        warnings: Vec<String>,
    ) -> Course<'a> {
        let targets = comparison.targets.len() as u32;
        let runs: Duration = comparison
            .workloads
            .iter()
            .map(|workload| {
                let cases: Duration = workload
                    .groups()
                    .map(|group| match Cut::here(group, comparison.targets.len()) {
                        // The factor covers starting and settling.
                        Cut::Slices(_) => time_of(group).mul_f64(1.4) + ramp_up_of(group),
                        Cut::Whole | Cut::Counts(_) => time_of(group) + ramp_up_of(group) + paced_time(group),
                    })
                    .sum();
                cases * workload.repeats * targets
            })
            .sum();
        let times = if own_regions { 1 } else { rounds(comparison) };
        Course {
            comparison,
            stand,
            observer,
            names,
            span,
            own_regions,
            began: sync::now(),
            started: SystemTime::now(),
            machine: Machine::watch(),
            expected: runs + span_time(span) * (targets + targets * times),
            spent: Duration::ZERO,
            targets: Vec::new(),
            gathered: Vec::new(),
            warnings,
            partial: Vec::new(),
            failed: Vec::new(),
            rests: Rests::default(),
            preconditioning: None,
            noise: Noise::of(comparison),
        }
    }

    /// Measures all targets side by side, each in its own region.
    fn together(&mut self) -> Result<()> {
        let comparison = self.comparison;
        self.provide()?;
        let mut places = self.stand.places.iter();
        // A target in a directory of the host does not use its region, so any will do.
        let nowhere = self.stand.places.first();
        let mut members = Vec::new();
        for (target, name) in comparison.targets.iter().zip(self.names.clone()) {
            let place = if target.is_on_device() { places.next() } else { nowhere };
            let place = place.ok_or_else(|| Error::Job("there is no room for every target".into()))?;
            let ready = self.make(target, &name, place);
            members.extend(self.keep_or_drop(&name, "made ready", ready));
        }
        self.write_files(&mut members);
        if members.is_empty() {
            return Err(Error::Unmeasured(self.reasons()));
        }
        'all: for round in 1..=rounds(comparison) {
            for workload in comparison.workloads.iter().filter(|workload| round <= workload.repeats) {
                for group in workload.groups() {
                    self.cases(&mut members, workload, group, round)?;
                    if self.is_over() {
                        break 'all;
                    }
                }
            }
        }
        members.into_iter().try_for_each(|member| self.end(member))
    }

    /// Measures one target after the other in the same region.
    fn in_turns(&mut self) -> Result<()> {
        let comparison = self.comparison;
        let stand = self.stand;
        let place = &stand.places[0];
        self.provide()?;
        self.warnings.push(format!(
            "{} has no room for every target at once: each had all of it in turn, so that a ratio rests on {} of \
             slices that lie minutes apart",
            stand.name,
            crate::statistics::plural(rounds(comparison).into(), "pair")
        ));
        for round in 1..=rounds(comparison) {
            for (target, name) in comparison.targets.iter().zip(self.names.clone()) {
                if self.is_over() || self.failed.iter().any(|(failed, _)| *failed == name) {
                    continue;
                }
                let ready = self.make(target, &name, place);
                let mut members: Vec<Member> =
                    self.keep_or_drop(&name, "made ready", ready).into_iter().collect();
                self.write_files(&mut members);
                for workload in comparison.workloads.iter().filter(|workload| round <= workload.repeats) {
                    for group in workload.groups() {
                        if !members.is_empty() && !self.is_over() {
                            self.cases(&mut members, workload, group, round)?;
                        }
                    }
                }
                members.into_iter().try_for_each(|member| self.end(member))?;
            }
        }
        Ok(())
    }

    /// Whether the observer asks to end; if so, notes that as the reason for a partial document.
    fn is_over(&mut self) -> bool {
        let over = self.observer.stop();
        if over && self.partial.is_empty() {
            self.partial.push("it was interrupted".into());
        }
        over
    }

    fn provide(&mut self) -> Result<()> {
        let (observer, spent, expected) = (self.observer, self.spent, self.expected);
        let share = span_time(self.span) * self.stand.places.len() as u32;
        self.stand.provide(&mut |done, total| {
            let done = share.mul_f64(done as f64 / total.max(1) as f64);
            observer.stage("writing the image once", spent + done, expected);
            Ok(())
        })?;
        self.spent += share;
        if let Some(round) = self.comparison.precondition.filter(|_| self.stand.kind != NO_DEVICE) {
            let watch = SliceProgress {
                observer,
                what: "preconditioning".into(),
                spent: self.spent,
                expected: self.expected,
            };
            let range = self.stand.used();
            self.preconditioning =
                Some(precondition::precondition(&self.stand.device, &range, round, &watch)?);
        }
        Ok(())
    }

    /// Writes the files of all members, a piece of each alternately, and makes them durable: a host or drive may store
    /// data together that was written together, and no target must have an advantage from that.
    fn write_files(&mut self, members: &mut Vec<Member>) {
        let seed = self.comparison.workloads.first().map_or(0, |workload| workload.seed);
        // In virtual time only what is verified needs content, and that is written before each case.
        let content = (!sync::is_virtual()).then_some(seed);
        let mut at = 0;
        while at < self.span {
            let piece = at..(at + FILE_PIECE).min(self.span);
            let spent = self.spent + (span_time(at) * members.len() as u32);
            self.observer.stage("writing the test files", spent, self.expected);
            self.each(members, "written", |member| {
                crate::engine::prepare_with(&member.ready.subject, &piece, content, &mut |_, _| {})
            });
            // Each row of pieces begins with another target.
            if !members.is_empty() {
                members.rotate_left(1);
            }
            at = piece.end;
        }
        self.spent += span_time(self.span) * members.len() as u32;
        self.each(members, "written", |member| member.ready.subject.sync());
        let place = |member: &Member| self.names.iter().position(|name| *name == member.name);
        members.sort_by_key(place);
    }

    /// Runs `act` on all members; a member for which it fails is left out from now on.
    fn each(&mut self, members: &mut Vec<Member>, what: &str, act: impl Fn(&mut Member) -> Result<()>) {
        members.retain_mut(|member| {
            let done = act(member);
            self.keep_or_drop(&member.name, what, done).is_some()
        });
    }

    /// Formats a target and makes its file.
    fn make(&mut self, target: &Target, name: &str, place: &Region) -> Result<Member> {
        self.observer.stage(&format!("{name}: formatting"), self.spent, self.expected);
        let ready = target.set_up(name, place, self.stand.caching, self.span)?;
        if !self.targets.iter().any(|target| target.name == name) {
            self.targets.push(ready.description.clone());
        }
        Ok(Member { name: name.into(), ready, busy: None })
    }

    /// If a step failed for a target, notes that the target is left out, with the reason.
    fn keep_or_drop<T>(&mut self, name: &str, what: &str, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                let why = format!("{name} was left out, as it could not be {what}: {error}");
                self.failed.push((name.to_owned(), why));
                None
            }
        }
    }

    /// Why targets were left out, in one sentence.
    fn reasons(&self) -> String {
        let reasons: Vec<&str> = self.failed.iter().map(|(_, why)| why.as_str()).collect();
        reasons.join("; ")
    }

    fn end(&mut self, member: Member) -> Result<()> {
        let Member { name, ready, busy } = member;
        let ended = busy.map_or(Ok(()), Busy::end).and_then(|()| ready.tear_down());
        self.keep_or_drop(&name, "unmounted", ended);
        Ok(())
    }

    /// Runs one case, or several at the same time, on all members.
    fn cases(
        &mut self,
        members: &mut Vec<Member>,
        workload: &Workload,
        group: &[Case],
        round: u32,
    ) -> Result<()> {
        let labels: Vec<String> =
            group.iter().map(|case| report_case(workload, case, group).label()).collect();
        let label = labels.join(" + ");
        let jobs: Vec<Job> =
            group.iter().zip(0..).map(|(case, number)| self.job(workload, case, number)).collect();
        let cut = Cut::here(group, members.len());
        let ramp_up = ramp_up_of(group);
        let (mut sessions, slowest) = self.begin(members, workload, (&jobs, &label), (cut, ramp_up))?;
        let cut = if slowest.is_finite() { cut.for_rate(slowest) } else { cut };
        let mut stops: Vec<Stop> = group.iter().map(|case| cut.stop(case)).collect();
        let ramp_up = match cut {
            Cut::Slices(length) => settling(length),
            Cut::Counts(_) => Duration::ZERO,
            Cut::Whole => ramp_up,
        };
        let mut orders = Orders::new(members.len(), workload.seed ^ u64::from(round) << 32);
        let usual = cut.passes(group);
        let passes = match (cut, self.noise.until) {
            // If no time is chosen, there is an end all the same.
            (Cut::Slices(_), Some(_)) if self.comparison.time.is_none() => usual.saturating_mul(PATIENCE),
            _ => usual,
        };
        for pass in 1..=passes {
            if self.observer.stop() && pass > 1 {
                break;
            }
            if matches!(cut, Cut::Slices(_))
                && pass > noise::FIRST
                && pass % noise::FIRST == 1
                && self.is_precise(members, workload, group, (pass - 1, usual))
            {
                break;
            }
            if let (Cut::Counts(each), [case]) = (cut, group)
                && pass == passes
            {
                // What is left of the load.
                let before = each * u64::from(passes - 1);
                stops = vec![Stop::Count(case.count.unwrap_or(each).saturating_sub(before).max(1))];
            }
            let order: Vec<String> =
                orders.next().into_iter().map(|place| members[place].name.clone()).collect();
            let is_part = matches!(cut, Cut::Counts(_));
            let turn = Turn { ramp_up, stops: &stops, is_part, workload, group, label: &label };
            self.pass(members, &mut sessions, order, &turn, (round, pass));
        }
        for gathered in &mut self.gathered {
            if let Some((iops, mb_per_s)) = gathered.end_of_round() {
                let label = gathered.case.label();
                self.observer.result(&gathered.target, &workload.title, &label, iops, mb_per_s);
            }
        }
        self.rest_of(members, group, &label)
    }

    /// Opens a session of each member, and returns the IOPS of the slowest; those that fail are left out.
    fn begin(
        &mut self,
        members: &mut Vec<Member>,
        workload: &Workload,
        (jobs, label): (&[Job], &str),
        how: (Cut, Duration),
    ) -> Result<(Vec<Session>, f64)> {
        let (mut sessions, mut slowest) = (Vec::new(), f64::INFINITY);
        let mut at = 0;
        while at < members.len() {
            let trial = self.try_out(&members[at], workload, (jobs, label), how);
            let name = members[at].name.clone();
            match self.keep_or_drop(&name, &format!("measured under {label}"), trial) {
                Some((session, iops)) => {
                    sessions.push(session);
                    slowest = slowest.min(iops);
                    members[at].busy = Busy::begin(&members[at].ready.subject)?;
                    at += 1;
                }
                None => {
                    members.remove(at);
                }
            }
        }
        Ok((sessions, slowest))
    }

    /// Whether the precision that was asked for is reached; tells the observer what noise there is.
    fn is_precise(
        &mut self,
        members: &[Member],
        workload: &Workload,
        group: &[Case],
        (done, usual): (u32, u32),
    ) -> bool {
        let rates = self.rates(members, workload, group);
        let others = self.machine.other_load();
        if let Some(sentence) = self.noise.sentence(&rates, done, usual, others) {
            self.observer.notice(&sentence);
        }
        self.noise.is_reached(&rates)
    }

    /// Opens a session of a member, and measures one slice that no result counts, if slices are measured: how fast it is
    /// says how many I/Os fit into one.
    fn try_out(
        &self,
        member: &Member,
        workload: &Workload,
        (jobs, label): (&[Job], &str),
        (cut, ramp_up): (Cut, Duration),
    ) -> Result<(Session, f64)> {
        if self.comparison.verify {
            // Verification expects every block as it was prepared, so the whole span is written again.
            let subject = &member.ready.subject;
            crate::prepare(subject, &(0..workload.span), workload.seed, &mut |_, _| {})?;
            subject.sync()?;
        }
        let mut session = Session::together(member.ready.subject.clone(), jobs.to_vec())?;
        let Cut::Slices(length) = cut else { return Ok((session, f64::INFINITY)) };
        let watch = self.watch(&member.name, workload, label);
        let stops = vec![Stop::Slice(length); jobs.len()];
        let measured = session.run_all(ramp_up, &stops, length, &watch)?;
        Ok((session, measured.iter().map(Measured::iops).fold(f64::INFINITY, f64::min)))
    }

    /// One slice on each member, in this order; those that fail are dropped with their sessions.
    fn pass(
        &mut self,
        members: &mut Vec<Member>,
        sessions: &mut Vec<Session>,
        order: Vec<String>,
        turn: &Turn<'_>,
        (round, pass): (u32, u32),
    ) {
        assert_eq!(members.len(), sessions.len(), "each member has its session");
        for name in order {
            let Some(place) = members.iter().position(|member| member.name == name) else { continue };
            let outcome = self.slice(&mut members[place], &mut sessions[place], turn);
            match self.keep_or_drop(&name, &format!("measured under {}", turn.label), outcome) {
                Some(slices) => {
                    for (case, slice) in turn.group.iter().zip(slices) {
                        self.observer.measured(&name, turn.workload, case, &slice.measured);
                        self.gather(&name, turn.workload, case, turn.group).add(round, pass, slice);
                    }
                }
                None => {
                    members.remove(place);
                    sessions.remove(place);
                }
            }
        }
    }

    /// The rates that were measured so far: for each case of the group, for each target.
    fn rates(&self, members: &[Member], workload: &Workload, group: &[Case]) -> Vec<Vec<Vec<f64>>> {
        let of_case = |case: &Case| {
            let case = report_case(workload, case, group);
            let of = |member: &Member| {
                let mut all = self.gathered.iter();
                all.find(|gathered| gathered.target == member.name && gathered.case.is_same(&case))
                    .map(Gathered::rates)
                    .unwrap_or_default()
            };
            members.iter().map(of).collect()
        };
        group.iter().map(of_case).collect()
    }

    /// The pause between cases: makes writes durable, and gives volumes time for work of their own.
    fn rest_of(&mut self, members: &mut [Member], group: &[Case], label: &str) -> Result<()> {
        for member in &mut *members {
            if let Some(busy) = member.busy.take() {
                busy.end()?;
            }
        }
        if group.iter().all(|case| case.pattern.only_reads()) {
            return Ok(());
        }
        for member in &*members {
            member.ready.subject.sync()?;
        }
        let volumes: Vec<(&str, Option<&Recorder>)> =
            members.iter().map(|member| (member.name.as_str(), member.ready.recorder.as_deref())).collect();
        self.rests.rest(&volumes, label, self.expected);
        Ok(())
    }

    /// Returns the job of a case; `number` is its position among the cases that run at the same time.
    fn job(&self, workload: &Workload, case: &Case, number: u64) -> Job {
        /// A distance between the jobs' seeds that is far larger than the offsets that workers and pieces add to a
        /// seed: 2^64 divided by the golden ratio.
        const APART: u64 = 0x9E37_79B9_7F4A_7C15;
        Job {
            pattern: case.pattern.clone(),
            range: case.range(workload.span),
            // The seeds of jobs that run at the same time differ, so that they do not draw the same places.
            seed: workload.seed.wrapping_add(number.wrapping_mul(APART)),
            ramp_up: case.ramp_up,
            stop: Stop::After(case.time),
            durability: workload.durability_of(case),
            verify: self.comparison.verify,
            touch: self.comparison.touch,
            interval: interval(Stop::After(case.time)),
        }
    }

    /// Runs one slice on one target; returns the measurements of each case that runs at the same time.
    fn slice(
        &mut self,
        member: &mut Member,
        session: &mut Session,
        turn: &Turn<'_>,
    ) -> Result<Vec<gather::Slice>> {
        let &Turn { ramp_up, stops, is_part, workload, group, label } = turn;
        if let Some(busy) = member.busy.take() {
            busy.end()?;
        }
        let recorder = member.ready.recorder.as_deref();
        let before = recorder.map(Recorder::traffic);
        let started = sync::now() - self.began;
        let asked = group.iter().filter_map(|case| case.interval).min();
        let usual = stops.iter().map(|stop| interval(*stop)).min().unwrap_or(Duration::from_secs(1));
        // A slice has a timeline of one interval, whatever interval the case asks for.
        let is_whole = !stops.iter().any(|stop| matches!(stop, Stop::Slice(_)));
        let interval = asked.filter(|_| is_whole).unwrap_or(usual);
        let all: Vec<Measured> =
            session.run_all(ramp_up, stops, interval, &self.watch(&member.name, workload, label))?;
        let background = rest::settle(recorder);
        let traffic = recorder.zip(before).map(|(recorder, before)| recorder.traffic().since(&before));
        member.busy = Busy::begin(&member.ready.subject)?;
        self.spent += all.iter().map(|measured| measured.whole).max().unwrap_or_default();
        if let Some(first) = all.iter().find_map(|measured| measured.corruptions.first()) {
            let sum = |count: fn(&Measured) -> u64| all.iter().map(count).sum::<u64>();
            self.warnings.push(format!(
                "{}, {label}: {} of {} blocks did not read back as written; the first at offset {}: {}",
                member.name,
                sum(|measured| measured.corrupted),
                sum(|measured| measured.verified),
                first.offset,
                first.what
            ));
        }
        let mut issued = Issued::default();
        all.iter().for_each(|measured| issued.add(&measured.issued));
        let started = started + ramp_up;
        let slice = |(measured, &stop): (Measured, &Stop)| {
            let traffic = traffic.clone();
            // Its timeline is one interval, as that of every slice.
            let stop = if is_part { Stop::Slice(measured.elapsed) } else { stop };
            gather::Slice { started, measured, issued, background, traffic, stop }
        };
        Ok(all.into_iter().zip(stops).map(slice).collect())
    }

    fn watch<'s>(&'s self, name: &str, workload: &Workload, label: &str) -> SliceProgress<'s> {
        SliceProgress {
            observer: self.observer,
            what: format!("{name}: {} {label}", workload.title),
            spent: self.spent,
            expected: self.expected,
        }
    }

    /// Returns the place where a target's slices of a case are gathered.
    fn gather(&mut self, target: &str, workload: &Workload, case: &Case, group: &[Case]) -> &mut Gathered {
        let case = report_case(workload, case, group);
        let known = self
            .gathered
            .iter()
            .position(|gathered| gathered.target == target && gathered.case.is_same(&case));
        let index = known.unwrap_or_else(|| {
            self.gathered.push(Gathered::new(target.into(), case));
            self.gathered.len() - 1
        });
        &mut self.gathered[index]
    }

    fn document(mut self) -> Document {
        let comparison = self.comparison;
        let settings = Settings {
            preset: comparison.preset.name().into(),
            base: comparison.base.clone().unwrap_or_default(),
            rounds: rounds(comparison),
            seed: comparison.workloads.first().map_or(0, |workload| workload.seed),
            direct: self.stand.direct && self.stand.caching != Caching::Buffered,
            own_regions: self.own_regions,
            span_bytes: self.span,
            preconditioning: self.preconditioning,
            programs: None,
            until_percent: comparison.until.map(|share| share * 100.0),
            discarded: (self.stand.kind != NO_DEVICE).then_some(comparison.discard),
            workloads: comparison.workloads.iter().map(workload_settings).collect(),
        };
        let device = device_info(&*self.stand.device, &self.stand.name, self.stand.kind, &self.stand.place);
        let mut document = Document::new(
            self.started,
            comparison.command.clone(),
            environment(device),
            settings,
            self.targets,
        );
        self.partial.extend(self.failed.into_iter().map(|(_, why)| why));
        document.partial = (!self.partial.is_empty()).then(|| self.partial.join("; "));
        document.warnings = self.warnings;
        document.warnings.extend(self.rests.sentence());
        document.results = self.gathered.into_iter().map(Gathered::result).collect();
        // Results and targets are sorted in the order in which they were named, rather than that in which slices
        // happened to run.
        let place = |name: &str| self.names.iter().position(|other| other == name);
        document.results.sort_by_key(|result| place(&result.target));
        document.targets.sort_by_key(|target| place(&target.name));
        document.pairs = questions(&document);
        if sync::is_virtual() {
            document.conclude();
            return document;
        }
        let busy = |result: &&report::CaseResult| result.target == RAW && result.cpu.percent < 60.0;
        let asleep = document.results.iter().filter(busy).count();
        let cases = document.results.iter().filter(|result| result.target == RAW).count();
        document.machine = self.machine.sentences(asleep, cases);
        document.environment.other_load = self.machine.other_load();
        document.environment.throttled_periods =
            self.machine.throttled().map(|(_, throttled)| throttled.periods);
        document.conclude();
        document
    }
}

fn rounds(comparison: &Comparison) -> u32 {
    comparison.workloads.iter().map(|workload| workload.repeats).max().unwrap_or(1)
}

fn workload_settings(workload: &Workload) -> WorkloadSettings {
    let seconds =
        workload.cases.iter().filter(|case| case.count.is_none()).map(|case| case.time.as_secs_f64());
    let writers = workload.cases.iter().filter(|case| !case.pattern.only_reads());
    let mut rules: Vec<String> = writers.map(|case| workload.durability_of(case).to_string()).collect();
    rules.dedup();
    if rules.is_empty() {
        rules.push(workload.durability.to_string());
    }
    WorkloadSettings {
        name: workload.name.clone(),
        title: workload.title.clone(),
        durability: rules.join(", "),
        span_bytes: workload.span,
        seconds: seconds.fold(0.0, f64::max),
    }
}

/// The pairs of targets that the published comparisons are about, if both are here: ReFS against NTFS, and integrity on
/// against off.
fn questions(document: &Document) -> Vec<report::Pair> {
    let asked = [("refs", "ntfs"), ("refs+integrity", "refs")];
    let of = |name: &str, format: &str| name == format || name.starts_with(&format!("{format}:"));
    let first = |format: &str| document.targets.iter().find(|target| of(&target.name, format));
    let pair = |(target, base): (&str, &str)| {
        Some(report::Pair { target: first(target)?.name.clone(), base: first(base)?.name.clone() })
    };
    asked.into_iter().filter_map(pair).collect()
}

/// Reports the progress of a run as progress of the comparison.
struct SliceProgress<'a> {
    observer: &'a dyn Observer,
    what: String,
    spent: Duration,
    expected: Duration,
}

impl Watch for SliceProgress<'_> {
    fn tick(&self, elapsed: Duration, _whole: Option<Duration>) {
        self.observer.stage(&self.what, self.spent + elapsed, self.expected);
    }

    fn stop(&self) -> bool {
        self.observer.stop()
    }
}

/// The length of an interval of the timeline: a second for a run in one piece, a tenth of the run if that is shorter
/// than three seconds, the whole slice for a slice.
fn interval(stop: Stop) -> Duration {
    let second = Duration::from_secs(1);
    match stop {
        Stop::Slice(time) => time,
        Stop::After(time) if time < second * 3 => (time / 10).max(Duration::from_millis(10)),
        Stop::After(_) | Stop::Count(_) | Stop::Within { .. } => second,
    }
}
