/// Ways to spoil the machine, for tests that have to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A newcomer passes those who wait if it can be had at once.
    Barging,
    /// Who waited behind a request that is withdrawn is not looked at.
    LostWakeUp,
    /// Locks of an expired session are granted on before other sessions that are due have ended.
    GrantToDead,
    /// Somebody who shares a lock is not taken to be in anybody's way.
    SharersIgnored,
    /// Somebody ahead in a queue is not taken to be in anybody's way.
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
    /// A stall is not given back.
    StallsCount,
    /// A wounded one may wait.
    WoundsHeal,
}
