use crate::Info;

/// What theory says of a failure detector, and what of it can be had for something else.
#[derive(Clone, Copy, Debug)]
pub struct Detecting {
    /// Until a crash is noticed, at most, where no message takes longer than `T`; in units of `T`.
    pub at_most: Option<fn(&Info) -> Option<f64>>,
    /// Messages per pair and `T` among so many nodes while nothing happens.
    pub messages: Option<fn(&Info, f64) -> Option<f64>>,
    /// What to change to have crashes detected sooner or with fewer mistakes.
    pub knobs: &'static [Knob],
}

/// Something to be set to one value after the other.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// What is set.
    pub name: &'static str,
    /// Whether that is the longest a node takes to answer, which is part of the system, rather than
    /// an option.
    pub processing: bool,
    /// To which values, in units of `T` if it is a time.
    pub values: &'static [f64],
    /// What is set beside.
    pub beside: &'static [(&'static str, &'static str)],
}

impl Knob {
    /// An option, set to these values.
    pub const fn option(name: &'static str, values: &'static [f64]) -> Self {
        Self { name, processing: false, values, beside: &[] }
    }

    /// The longest a node takes to answer, set to these values.
    pub const fn processing(values: &'static [f64]) -> Self {
        Self { processing: true, ..Self::option("Tproc", values) }
    }

    /// The same with these options set.
    #[must_use]
    pub const fn beside(self, beside: &'static [(&'static str, &'static str)]) -> Self {
        Self { beside, ..self }
    }
}
