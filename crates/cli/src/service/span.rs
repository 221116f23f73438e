//! Spans of time as people write them.

use std::time::Duration;

/// Reads a span: `500ms`, `10s`, `1m30s`, `2h`; a number alone is seconds.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no span of time; write 500ms, 10s, 1m30s or 2h");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad());
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        total += number
            * match &rest[..letters] {
                "ms" => 0.001,
                "" | "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(bad()),
            };
        rest = &rest[letters..];
    }
    Duration::try_from_secs_f64(total).map_err(|_| bad())
}

/// A span in a form that [`span`] reads.
pub(crate) fn spell(span: Duration) -> String {
    let millis = span.as_millis();
    if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_come_in_many_forms() {
        let millis = |text| span(text).map(|span| span.as_millis());
        let forms = ["500ms", "10", "10s", "1.5s", "1m30s", "2h", "0"].map(millis);
        assert_eq!(forms, [500, 10_000, 10_000, 1500, 90_000, 7_200_000, 0].map(Ok));
        for bad in ["", "s", "10x", "-1s", "1e9", "abc", "1..5s", "10 s"] {
            let error = span(bad).expect_err(bad);
            assert!(error.contains("1m30s"), "{error}");
        }
        assert_eq!(span(&spell(Duration::from_millis(1500))), Ok(Duration::from_millis(1500)));
    }
}
