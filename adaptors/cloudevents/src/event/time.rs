//! Timestamps: RFC 3339 syntax, checked and never re-printed, so that precision beyond nanoseconds survives.
//! Never reads a clock.

/// Checks an RFC 3339 timestamp: date, `T` or `t`, time, fraction of any length, `Z`, `z` or an offset. Second 60 is
/// legal, `-00:00` means an unknown offset.
pub(crate) fn check(text: &str) -> Result<(), &'static str> {
    parse(text).map(|_| ()).ok_or("is not an RFC 3339 timestamp")
}

/// Milliseconds since the Unix epoch of a timestamp, negative before it; None when malformed.
pub(crate) fn to_unix_ms(text: &str) -> Option<i64> {
    let parts = parse(text)?;
    let days = days_from_civil(parts.year, parts.month, parts.day);
    let seconds = days * 86_400 + parts.hour * 3600 + parts.minute * 60 + parts.second - parts.offset_s;
    Some(seconds * 1000 + parts.milli)
}

/// A timestamp that egress may show: as it is, or with the seconds that JVM producers leave out when they are zero.
pub(crate) fn repaired(text: &str) -> Option<std::borrow::Cow<'_, str>> {
    if parse(text).is_some() {
        return Some(text.into());
    }
    let (head, tail) = text.split_at_checked(16)?;
    let with_seconds = format!("{head}:00{tail}");
    parse(&with_seconds).is_some().then(|| with_seconds.into())
}

struct Parts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    milli: i64,
    offset_s: i64,
}

/// ```text
/// 0    4 5  7 8  10 11 13 14 16 17 19
/// YYYY - MM - DD T  hh :  mm :  ss [.f+] (Z | +hh:mm | -hh:mm)
/// ```
fn parse(text: &str) -> Option<Parts> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        digits
            .iter()
            .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    let is = |at: usize, allowed: &[u8]| bytes.get(at).filter(|byte| allowed.contains(byte)).map(|_| ());
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    is(4, b"-").and(is(7, b"-")).and(is(10, b"Tt")).and(is(13, b":")).and(is(16, b":"))?;
    let mut at = 19;
    let mut milli = 0;
    if bytes.get(at) == Some(&b'.') {
        let digits = bytes.get(at + 1..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        let kept = digits.min(3);
        milli = number(at + 1, at + 1 + kept)? * [1, 100, 10, 1].get(kept).copied().unwrap_or(1);
        at += 1 + digits;
    }
    let offset_s = match bytes.get(at..)? {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let offset = hours * 3600 + minutes * 60;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour <= 23
        && minute <= 59
        && second <= 60;
    in_range.then_some(Parts { year, month, day, hour, minute, second, milli, offset_s })
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar. Years count from March, so that the leap day
/// is the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_forms_are_taken() {
        for text in [
            "2026-11-30T22:51:27.087065Z",
            "2026-11-30T22:51:27+00:00",
            "2026-11-30t22:51:27z",
            "2016-12-31T23:59:60Z",
            "2026-02-28T00:00:00.123456789012345678-00:00",
            "2024-02-29T12:00:00+14:00",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn malformed_forms_are_refused() {
        for text in [
            "",
            "2026-11-30",
            "2026-11-30 22:51:27Z",
            "2026-11-30T22:51:27",
            "2026-11-30T22:51Z",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T22:51:61Z",
            "2026-11-30T22:51:27.Z",
            "2026-11-30T22:51:27+0100",
            "2026-11-30T22:51:27+24:00",
            "2026-11-30T22:51:27Zx",
            "２026-11-30T22:51:27Z",
            "yesterday",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unix_time_agrees_with_known_instants() {
        assert_eq!(to_unix_ms("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(to_unix_ms("2000-03-01T00:00:00.25Z"), Some(951_868_800_250));
        assert_eq!(to_unix_ms("2026-12-01T01:00:00+01:00"), Some(1_796_083_200_000));
        assert_eq!(to_unix_ms("1969-12-31T23:59:59.9Z"), Some(-100));
    }

    #[test]
    fn missing_seconds_are_put_back_for_egress() {
        assert_eq!(repaired("2026-01-01T00:00Z").as_deref(), Some("2026-01-01T00:00:00Z"));
        assert_eq!(repaired("2026-01-01T00:00:01Z").as_deref(), Some("2026-01-01T00:00:01Z"));
        assert_eq!(repaired("soon"), None);
        assert_eq!(repaired("ääääääääääää"), None);
    }
}
