//! A client's stream of `conclave.v1`: its requests are submitted in the order in which they come, without waiting for
//! each other; answers and events go back as they come.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use conclave_api::{Code, v1};
use conclave_machine::{Command, Name, SessionId, Via};
use futures_util::Stream;
use v1::ask::What as ClientMessage;
use v1::tell::What as ServerMessage;
use v1::{Ask, Tell};

use crate::answer::{Answer, Answered, Failure};
use crate::auth::{Caller, Right};
use crate::client_queue::{ClientQueue, Deliveries, Delivery, OpenQuestion, Question};
use crate::codec;
use crate::dispatch::{Asker, Renewal, Target};
use crate::listen::HangUp;
use crate::service::{self, Service, SessionKey, check_rights, unknown};
use crate::sizes;

/// One client's stream. What is queued for the client is sent before the next request is read, so a client that does
/// not read is not read from.
pub(crate) struct ClientStream {
    service: Arc<Service>,
    caller: Caller,
    queue: ClientQueue,
    deliveries: Deliveries,
    /// Echoes are sent before all that is queued.
    echoes: VecDeque<Tell>,
}

/// What happens next on a stream.
pub(crate) enum Step {
    /// This is to be sent to the client.
    Send(Tell),
    /// A request was read.
    Received,
    /// The stream is over.
    Over,
}

/// So many steps one stream takes before other tasks get their turn.
pub(crate) const STEPS_AT_ONCE: usize = 64;

impl ClientStream {
    pub(crate) fn new(service: Arc<Service>, caller: Caller, hang_up: Option<HangUp>) -> Self {
        let (queue, deliveries) = service.register(&caller, hang_up);
        Self { service, caller, queue, deliveries, echoes: VecDeque::new() }
    }

    /// Is ready when the stream has to end, whatever is still queued.
    pub(crate) fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        self.deliveries.poll_over(cx)
    }

    /// Yields what is to be sent, or else reads a request.
    pub(crate) fn poll_step<E>(
        &mut self,
        asked: &mut (impl Stream<Item = Result<Ask, E>> + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Step> {
        if let Some(echo) = self.echoes.pop_front() {
            return Poll::Ready(Step::Send(echo));
        }
        match Pin::new(&mut self.deliveries).poll_next(cx) {
            Poll::Ready(Some(mut delivery)) => {
                if let Delivery::Answer(_, Err(failure)) = &mut delivery {
                    self.caller.hide_in_failure(failure);
                    self.service.node.metrics.refuse(failure.code);
                }
                return Poll::Ready(Step::Send(codec::tell(delivery)));
            }
            Poll::Ready(None) => return Poll::Ready(Step::Over),
            Poll::Pending => {}
        }
        // A client with too many unanswered requests is not read from until some are answered.
        if self.queue.is_busy() {
            return Poll::Pending;
        }
        match ready!(Pin::new(asked).poll_next(cx)) {
            Some(Ok(ask)) => {
                self.take(ask);
                Poll::Ready(Step::Received)
            }
            // A stream that breaks off is as good as one that ends: the sessions are left as they are.
            Some(Err(_)) | None => Poll::Ready(Step::Over),
        }
    }

    fn take(&mut self, ask: Ask) {
        let question = Question { session: SessionId(ask.session), id: ask.id, key: 0 };
        if let Err(failure) = self.try_take(ask, question) {
            self.answer(question, Err(failure));
        }
    }

    fn answer(&self, question: Question, answer: Answer) {
        self.queue.push(Delivery::Answer(question, answer));
    }

    fn try_take(&mut self, ask: Ask, question: Question) -> Result<(), Failure> {
        let Ask { session, id, received, key, what } = ask;
        let what = what.ok_or_else(codec::nothing)?;
        if id == 0 {
            return Err(Failure::new(Code::BadRequest, "a question needs a number"));
        }
        let session = SessionId(session);
        let node = &self.service.node;
        let tell_waiting = matches!(&what, ClientMessage::Acquire(acquire) if acquire.tell_waiting);
        let queue = &self.queue;
        let asker = || Asker { open: OpenQuestion::new(queue), question, tell_waiting };
        match what {
            ClientMessage::Echo(echo) => {
                let what = Some(ServerMessage::Echo(echo));
                self.echoes.push_back(Tell { session: session.0, id, what });
            }
            ClientMessage::Open(open) => {
                self.check_sessions()?;
                let (command, key) = self.caller.open(codec::new_session(open))?;
                let question = Question { key, ..question };
                node.submit(command, Target::Stream(Asker { question, ..asker() }));
            }
            ClientMessage::Attach(_) => {
                self.check_sessions()?;
                self.service.check_key(&self.caller, SessionKey { session, key })?;
                node.with_both(|dispatch, machine| match machine.key(session) {
                    Some(_) => {
                        dispatch.attach(session, &self.queue);
                        self.answer(question, Ok(Answered::done()));
                        dispatch.remind(session, machine, node.now().max(machine.now()));
                        Ok(())
                    }
                    None => Err(unknown(session)),
                })?;
            }
            ClientMessage::Observe(observe) => self.observe(&observe.election, id)?,
            ClientMessage::Unobserve(observe) => {
                let connection = self.queue.connection();
                node.with_both(|dispatch, _| dispatch.unobserve(&observe.election, connection));
                self.answer(question, Ok(Answered::done()));
            }
            ClientMessage::KeepAlive(keep) => {
                let named = keep.sessions.into_iter().map(SessionId);
                let mut sessions: Vec<SessionId> = named.collect();
                if sessions.is_empty() {
                    sessions.push(session);
                }
                let (sessions, strange) = node.with_both(|dispatch, _| {
                    let attached = |&session: &_| dispatch.is_attached(session, &self.queue);
                    sessions.into_iter().partition(attached)
                });
                node.keep_alive(Renewal { sessions, strange, target: Target::Stream(asker()) });
            }
            what => {
                let asked = codec::ask(what, id, received)?;
                if let service::Ask::Call { call, .. } = &asked {
                    check_rights(&self.caller, call)?;
                }
                if !node.with_both(|dispatch, _| dispatch.is_attached(session, &self.queue)) {
                    return Err(unknown(session));
                }
                let command = match asked {
                    service::Ask::Call { id, received, call } => {
                        service::request(session, id, received, Via::Stream, call)?.1
                    }
                    service::Ask::Close => Command::Close { session },
                    service::Ask::KeepAlive => unreachable!("renewals are gathered above"),
                };
                node.submit(command, Target::Stream(asker()));
            }
        }
        Ok(())
    }

    fn check_sessions(&self) -> Result<(), Failure> {
        let most = self.service.bounds.sessions;
        if self.service.node.with_both(|dispatch, _| dispatch.attached(&self.queue)) < most {
            return Ok(());
        }
        let message = format!("there may be at most {most} sessions of one connection");
        Err(Failure::new(Code::TooMany, message))
    }

    /// Sends the leader of an election, and from then on every change.
    fn observe(&self, election: &str, id: u64) -> Result<(), Failure> {
        self.caller.may(Right::Observe, election)?;
        sizes::election(election)?;
        let most = self.service.bounds.observed;
        let election = Name::from(election);
        self.service.node.see_with_dispatch(|dispatch, at| {
            if dispatch.observe(&election, &self.queue) > most {
                dispatch.unobserve(&election, self.queue.connection());
                let message = format!("one connection may observe at most {most} elections");
                return Err(Failure::new(Code::TooMany, message));
            }
            let leader = Arc::new(at.leader(&election));
            self.queue.push(Delivery::Leader { id, leader });
            Ok(())
        })
    }
}
