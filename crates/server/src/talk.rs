//! A client's stream: its questions come in the order in which it asked them, and go on their way at
//! once; answers go back as they come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use conclave_api::{Code, v1};
use conclave_machine::{Command, Name, RequestId, SessionId, Via};
use futures_util::Stream;
use v1::ask::What as Asked;
use v1::tell::What as Told;
use v1::{Ask, Tell};

use crate::access::Caller;
use crate::hub::{Asker, Renewal, Target};
use crate::listen::HangUp;
use crate::outbound::{Answers, Open, Outbound};
use crate::service::{Service, may_ask, nothing, number, unknown};
use crate::translate::{self, failed};

/// One client's stream: it is told what there is to tell before it is listened to. So a client that does
/// not read is not listened to.
pub(crate) struct Talk {
    service: Arc<Service>,
    caller: Caller,
    to: Outbound,
    answers: Answers,
}

/// What happens next on a stream.
pub(crate) enum Turn {
    /// The client is told something.
    Tell(Tell),
    /// It asked something.
    Asked,
    /// It has gone, or has to go.
    Over,
}

/// So many turns one client has before it is another's turn.
pub(crate) const AT_ONCE: usize = 64;

impl Talk {
    pub(crate) fn new(service: Arc<Service>, caller: Caller, hang_up: Option<HangUp>) -> Self {
        let (to, answers) = service.enter(&caller, hang_up);
        Self { service, caller, to, answers }
    }

    /// Is ready when the client has to go, whatever it has not been told yet.
    pub(crate) fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        self.answers.poll_over(cx)
    }

    /// Tells the client something, or else listens to what it asks.
    pub(crate) fn poll_turn<E>(
        &mut self,
        asked: &mut (impl Stream<Item = Result<Ask, E>> + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Turn> {
        match Pin::new(&mut self.answers).poll_next(cx) {
            Poll::Ready(Some(mut tell)) => {
                if let Some(Told::Failed(failed)) = &mut tell.what {
                    self.caller.hide_in_failure(failed);
                    self.service.node.metrics.refuse(&failed.code);
                }
                return Poll::Ready(Turn::Tell(tell));
            }
            Poll::Ready(None) => return Poll::Ready(Turn::Over),
            Poll::Pending => {}
        }
        // Who has too many open questions is not listened to until some are answered.
        if self.to.is_busy() {
            return Poll::Pending;
        }
        match ready!(Pin::new(asked).poll_next(cx)) {
            Some(Ok(ask)) => {
                self.take(ask);
                Poll::Ready(Turn::Asked)
            }
            // A stream that breaks off is as good as one that ends: the sessions are left as they are.
            Some(Err(_)) | None => Poll::Ready(Turn::Over),
        }
    }

    fn take(&mut self, ask: Ask) {
        let (session, id) = (ask.session, ask.id);
        if let Err(failed) = self.try_take(ask) {
            self.to.tell(session, id, Told::Failed(failed));
        }
    }

    fn try_take(&mut self, ask: Ask) -> Result<(), v1::Failed> {
        let Ask { session, id, received, key, what } = ask;
        let what = what.ok_or_else(nothing)?;
        if id == 0 {
            return Err(failed(Code::BadRequest, "a question needs a number"));
        }
        may_ask(&self.caller, &what)?;
        let session = SessionId(session);
        let node = &self.service.node;
        let tell_waiting = matches!(&what, Asked::Acquire(acquire) if acquire.tell_waiting);
        let to = &self.to;
        let asker = || Asker { open: Open::new(to), session: session.0, id, tell_waiting, key: 0 };
        match what {
            Asked::Echo(echo) => self.answers.tell_first(session.0, id, Told::Echo(echo)),
            Asked::Open(open) => {
                self.check_sessions()?;
                let (command, key) = self.caller.open(&open)?;
                node.submit(command, Target::Stream(Asker { key, ..asker() }));
            }
            Asked::Attach(_) => {
                self.check_sessions()?;
                self.service.check_key(&self.caller, session, key)?;
                node.with_both(|hub, machine| match machine.key(session) {
                    Some(_) => {
                        hub.attach(session, &self.to);
                        self.to.tell(session.0, id, Told::Done(v1::Done {}));
                        hub.remind(session, machine, node.now().max(machine.now()));
                        Ok(())
                    }
                    None => Err(unknown(session)),
                })?;
            }
            Asked::Observe(observe) => self.observe(&observe.election, id)?,
            Asked::Unobserve(observe) => {
                let connection = self.to.connection();
                node.with_both(|hub, _| hub.unobserve(&observe.election, connection));
                self.to.tell(session.0, id, Told::Done(v1::Done {}));
            }
            Asked::KeepAlive(keep) => {
                let named = keep.sessions.into_iter().map(SessionId);
                let mut sessions: Vec<SessionId> = named.collect();
                if sessions.is_empty() {
                    sessions.push(session);
                }
                let (sessions, strange) = node.with_both(|hub, _| {
                    sessions.into_iter().partition(|&session| hub.is_attached(session, &self.to))
                });
                node.keep_alive(Renewal { sessions, strange, target: Target::Stream(asker()) });
            }
            what => {
                if !node.with_both(|hub, _| hub.is_attached(session, &self.to)) {
                    return Err(unknown(session));
                }
                let command = if matches!(what, Asked::Close(_)) {
                    Command::Close { session }
                } else {
                    let (request, received) = (number(id)?, RequestId(received));
                    let (via, call) = (Via::Stream, translate::call(what)?);
                    Command::Request { session, request, received, via, call }
                };
                node.submit(command, Target::Stream(asker()));
            }
        }
        Ok(())
    }

    fn check_sessions(&self) -> Result<(), v1::Failed> {
        let most = self.service.bounds.sessions;
        if self.service.node.with_both(|hub, _| hub.attached(&self.to)) < most {
            return Ok(());
        }
        let message = format!("there may be at most {most} sessions of one connection");
        Err(failed(Code::TooMany, message))
    }

    /// Tells who leads, and from then on of every change.
    fn observe(&self, election: &str, id: u64) -> Result<(), v1::Failed> {
        translate::election_fits(election)?;
        let most = self.service.bounds.observed;
        let election = Name::from(election);
        self.service.node.see_with_hub(|hub, eye| {
            if hub.observe(&election, &self.to) > most {
                hub.unobserve(&election, self.to.connection());
                let message = format!("one connection may observe at most {most} elections");
                return Err(failed(Code::TooMany, message));
            }
            self.to.tell(0, id, Told::Leader(eye.leader(&election)));
            Ok(())
        })
    }
}
