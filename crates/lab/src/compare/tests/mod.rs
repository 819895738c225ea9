mod alike;

use super::*;
use crate::workload::Preset;

#[test]
fn slices_fit_the_time_and_the_slowest_target() {
    let mut case = Workload::load("overhead", Preset::Quick).unwrap().cases[0].clone();
    let mut cut = |seconds: f64| {
        case.time = Duration::from_secs_f64(seconds);
        let group = std::slice::from_ref(&case);
        let cut = Cut::of(group, 3);
        (cut, cut.passes(group))
    };
    let slices = |milliseconds| Cut::Slices(Duration::from_millis(milliseconds));
    assert_eq!(cut(1.2), (slices(60), 20));
    assert_eq!(cut(3.6), (slices(60), 60));
    assert_eq!(cut(0.8), (slices(40), 20));
    assert_eq!(cut(60.0).0, slices(200));
    assert_eq!(cut(0.1), (Cut::Whole, 1));
    assert_eq!(slices(60).for_rate(320.0), slices(100));
    assert_eq!(slices(60).for_rate(10.0), slices(200));
    assert_eq!(slices(60).for_rate(1e6), slices(60));
    assert_eq!(Cut::of(std::slice::from_ref(&case), 1), Cut::Whole);
    // A rate of which a slice has only a few I/Os needs one piece, and so does a load that pauses.
    case.time = Duration::from_secs(12);
    let paced = |rate: Option<f64>, pause: Option<crate::Pause>| {
        let mut case = case.clone();
        case.pattern.workers = 2;
        case.pattern.shape.pace.limits[2] = rate.map(crate::Rate::Ios);
        case.pattern.shape.pace.pause = pause;
        Cut::of(&[case], 3)
    };
    let pause =
        crate::Pause { after: 100, time: Duration::from_millis(1), busy: Duration::ZERO, drained: true };
    assert_eq!((paced(Some(79.0), None), paced(None, Some(pause))), (Cut::Whole, Cut::Whole));
    assert_eq!((paced(Some(80.0), None), paced(None, None)), (slices(200), slices(200)));
    // Two cases that run at the same time must have the same length to be cut into slices.
    case.time = Duration::from_secs(2);
    let mut two = [case.clone(), case];
    assert_ne!(Cut::of(&two, 3), Cut::Whole);
    two[0].time *= 2;
    assert_eq!(Cut::of(&two, 3), Cut::Whole);
}
