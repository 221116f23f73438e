//! What never changes.

use std::fmt;

use conclave_protocol::Protocol;

use crate::snapshot::Share;

/// What never changes.
pub struct Config<P: Protocol> {
    /// The constants of the application.
    pub app: P::Config,
    /// What states and messages are worth, if that adds up.
    pub worth: Option<Worth<P>>,
    /// Whether parts are collected where the snapshot was started.
    pub(super) collects: bool,
    /// After how many snapshots of a node their numbers begin again, if they do.
    pub(super) numbers: Option<u32>,
    pub(super) mutation: Option<Mutation>,
}

/// What a state is worth, and what a message is.
pub type Worth<P> = (fn(&P) -> u64, fn(&<P as Protocol>::Msg) -> u64);

/// What is wrong in a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutation {
    /// Only the initiator sends markers, and channels are not recorded.
    Naive,
    /// A node that is told of a snapshot sends no marker back to the one that told it.
    OtherChannels,
    /// Markers wait until the application has done something more, and go behind what it sends then.
    LateMarkers,
    /// The first marker that comes is taken for the end of all channels.
    OneMarker,
}

impl<P: Protocol> Config<P> {
    /// Around an application with these constants. Each node keeps its part.
    pub const fn new(app: P::Config, worth: Option<Worth<P>>) -> Self {
        Self { app, worth, collects: false, numbers: None, mutation: None }
    }

    /// The same, but parts are collected by the node that starts a snapshot.
    #[must_use]
    pub fn collecting(self) -> Self {
        Self { collects: true, ..self }
    }

    /// The same, but numbers of snapshots begin again after so many. There have to be two at least, and
    /// a node may start the next snapshot only when it has collected the one before.
    #[must_use]
    pub fn numbered(self, most: u32) -> Self {
        Self { numbers: Some(most), ..self }
    }

    /// The same, but each node records when it first hears of a snapshot, and that is all.
    #[must_use]
    pub fn naive(self) -> Self {
        self.spoilt(Mutation::Naive)
    }

    /// The same with something wrong.
    pub(super) fn spoilt(self, mutation: Mutation) -> Self {
        Self { mutation: Some(mutation), ..self }
    }

    /// What a part holds, if that adds up.
    pub(super) fn worth_of(&self, share: &Share<P>) -> u64 {
        let Some((state, message)) = self.worth else { return 0 };
        let messages = share.channels.values().flatten().map(message);
        messages.fold(state(&share.state), u64::wrapping_add)
    }

    pub(super) fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

impl<P: Protocol> Clone for Config<P> {
    fn clone(&self) -> Self {
        let Self { worth, collects, numbers, mutation, .. } = *self;
        Self { app: self.app.clone(), worth, collects, numbers, mutation }
    }
}

impl<P: Protocol> fmt::Debug for Config<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("app", &self.app).finish_non_exhaustive()
    }
}
