/// Ways to spoil the machine, for tests that have to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A newcomer passes those who wait if it can be had at once.
    Barging,
    /// Who waited behind a request that is withdrawn is not looked at.
    LostWakeUp,
    /// Locks of an expired session are granted on before other sessions that are due have ended.
    GrantToDead,
    /// A holder that shares a lock is not taken to block any waiter.
    SharersIgnored,
    /// A request ahead in a queue is not taken to block any other.
    QueuesIgnored,
    /// Every holder of a permit is taken to be needed, where any would do.
    AnyPermitNeedsAll,
    /// Who is overtaken by an upgrade or a hand-over is not looked at again.
    NoSecondLook,
    /// A grant that follows a hand-over has the token of the one before.
    TokenHandedOn,
    /// A request that is made again is carried out again.
    Repeated,
    /// Several locks are granted if each could be had, though others are ahead of it at one.
    HalfReady,
    /// The answer to a request that waited for long is dropped before those to later ones.
    LateAnswerDropped,
    /// What a request without a number was granted outlives the connection of its client.
    HangUpIgnored,
    /// An opening that is repeated opens a second session.
    OpenedTwice,
    /// A wounded one may wait.
    WoundsHeal,
    /// Another leads as soon as a leader is deposed, whatever its lease lets it believe.
    DeposedAtOnce,
    /// The answer to a renewal does not say which leaderships it does not prolong.
    SilentRenewals,
    /// The answer to an opening that is repeated does not say that, though it renews, too.
    SilentOpenings,
    /// Candidates are not taken to wait for who leads.
    CandidatesIgnored,
    /// When the candidate has gone for which a leader was to yield, deadlocks are not looked for.
    StayingIgnored,
}
