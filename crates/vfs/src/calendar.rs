//! The Gregorian calendar.

/// Days of 400 years, after which the calendar repeats itself.
const CYCLE: i64 = 146_097;

/// The date (year, month, day) of a day counted from 1970-01-01.
///
/// Years are counted from March, so that the leap day is the last day of its year and the lengths of months follow one
/// formula.
pub fn date(days_since_1970: i64) -> (i64, i64, i64) {
    let since_march = days_since_1970 + 719_468;
    let (cycle, day) = (since_march.div_euclid(CYCLE), since_march.rem_euclid(CYCLE));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year + i64::from(month <= 2), month, day)
}
