//! The two text formats that Prometheus reads: OpenMetrics, and the older one, which most other tools read.

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `text/plain`.
    Classic,
    /// `application/openmetrics-text`.
    OpenMetrics,
}

impl Format {
    /// The one that is preferred by what an `Accept` header says; the older one if it says nothing of either.
    pub(crate) fn among(accepted: &str) -> Self {
        let weight = |kinds: &[&str]| -> f32 {
            let weights = accepted.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let kind = parts.next()?.to_ascii_lowercase();
                kinds.contains(&kind.as_str()).then(|| {
                    let weight = parts.find_map(|part| part.strip_prefix("q="));
                    weight.and_then(|weight| weight.parse().ok()).unwrap_or(1.0)
                })
            });
            weights.fold(0.0, f32::max)
        };
        let open = weight(&["application/openmetrics-text"]);
        if open > 0.0 && open >= weight(&["text/plain", "text/*"]) {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Figures in this format, from OpenMetrics.
    pub(crate) fn of(self, open_metrics: String) -> String {
        match self {
            Self::Classic => classic(&open_metrics),
            Self::OpenMetrics => open_metrics,
        }
    }
}

/// The older text calls a counter by its whole name, knows neither units nor an end, and has fewer types.
fn classic(open_metrics: &str) -> String {
    let lines: Vec<&str> = open_metrics.lines().collect();
    let of = |kind: &str, name: &str| {
        let suffix = format!(" {name} {kind}");
        lines.iter().any(|line| line.starts_with("# TYPE ") && line.ends_with(&suffix))
    };
    let mut text = String::with_capacity(open_metrics.len());
    for line in &lines {
        let about = line.strip_prefix("# ").and_then(|rest| {
            let (word, rest) = rest.split_once(' ')?;
            let (name, rest) = rest.split_once(' ')?;
            Some((word, name, rest))
        });
        match about {
            None if *line == "# EOF" => continue,
            None => text.push_str(line),
            Some(("UNIT", ..)) => continue,
            Some((word, name, rest)) => {
                let suffix = match () {
                    () if of("counter", name) => "_total",
                    () if of("info", name) => "_info",
                    () => "",
                };
                let rest = match (word, rest) {
                    ("TYPE", "unknown") => "untyped",
                    ("TYPE", "info" | "stateset") => "gauge",
                    ("TYPE", "gaugehistogram") => "histogram",
                    (_, rest) => rest,
                };
                text.push_str(&format!("# {word} {name}{suffix} {rest}"));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_given_and_the_older_text_to_others() {
        let asked = |accepted| Format::among(accepted);
        for classic in ["", "*/*", "text/plain", "text/plain;version=0.0.4", "application/json"] {
            assert_eq!(asked(classic), Format::Classic, "{classic}");
        }
        assert_eq!(asked("application/openmetrics-text"), Format::OpenMetrics);
        // As Prometheus asks.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
                          q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(asked(prometheus), Format::OpenMetrics);
        let other = "application/openmetrics-text;q=0.2, text/plain;version=0.0.4;q=0.9";
        assert_eq!(asked(other), Format::Classic);
    }

    #[test]
    fn the_older_text_names_counters_in_full_and_has_no_units() {
        let open = "# HELP a_seconds How long.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
                    a_seconds_sum 1.0\n# HELP b Things.\n# TYPE b counter\nb_total 2\n\
                    # HELP build What.\n# TYPE build info\nbuild_info{v=\"1\"} 1\n# EOF\n";
        let classic = "# HELP a_seconds How long.\n# TYPE a_seconds histogram\na_seconds_sum 1.0\n\
                       # HELP b_total Things.\n# TYPE b_total counter\nb_total 2\n\
                       # HELP build_info What.\n# TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n";
        assert_eq!(Format::Classic.of(open.to_owned()), classic);
        assert_eq!(Format::OpenMetrics.of(open.to_owned()), open);
    }
}
