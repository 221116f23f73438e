//! The front end over HTTP, in JSON, for curl and other clients without gRPC.
//!
//! * `routes` is the table of all that can be asked.
//! * `body` reads questions, `events` tells what happens to a session, `openapi` and `constraints` describe them, `origin` keeps web pages of other sites out.

mod body;
mod constraints;
mod events;
mod openapi;
mod origin;
mod routes;

use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER, UPGRADE,
    WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{MethodFilter, on};
use conclave_api::{Code, DEFAULT_ADDRESS, PLAIN, v1};
use conclave_machine::SessionId;
use futures_util::StreamExt;
use hyper::upgrade::OnUpgrade;
use serde::Serialize;
use serde_json::{Value, json};
use v1::ask::What as ClientMessage;
use v1::tell::What as ServerMessage;

use crate::answer::Failure;
use crate::auth::{Caller, Right};
use crate::client_queue::Question;
use crate::codec;
use crate::exposition::Format;
use crate::listen::HangUp;
use crate::node::STOPPING;
use crate::service::{Service, SessionKey};
use crate::stream::ClientStream;
use crate::upgrade;
use body::{Fields, Handle, LONGEST_BODY, Refusal, query};
pub(crate) use origin::Hosts;
use routes::{Does, Method, ROUTES, Route};

/// The time-to-live of a session whose client names none.
const USUAL_TTL_MS: u64 = 30_000;

/// Adds all that HTTP has to what gRPC has.
pub(crate) fn add_routes(grpc: Router, service: &Arc<Service>, hosts: Hosts) -> Router {
    let description = openapi::description().to_string().into();
    let site = Arc::new(Site { service: service.clone(), description });
    let mut router = grpc;
    for route in ROUTES {
        let method = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
        };
        let site = site.clone();
        let serve = move |request: Request| async move { site.serve(route, request).await };
        router = router.route(route.path, on(method, serve));
    }
    let guard = move |request: Request, next: Next| async move {
        match origin::check(hosts, &request) {
            Ok(()) => next.run(request).await,
            Err(failure) => Refusal::from(failure).into_response(),
        }
    };
    router
        .fallback(no_such_path)
        .method_not_allowed_fallback(other_method)
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::from_fn(guard))
        // What can be done once is not done for each request.
        .with_state(())
}

/// What answers over HTTP.
struct Site {
    service: Arc<Service>,
    description: Bytes,
}

impl Site {
    async fn serve(&self, route: &Route, request: Request) -> Response {
        self.answer(route, request).await.unwrap_or_else(|refusal| {
            self.service.node.metrics.refuse(refusal.failure.code);
            refusal.into_response()
        })
    }

    async fn answer(&self, route: &Route, request: Request) -> Result<Response, Refusal> {
        let service = &*self.service;
        let uri = request.uri().clone();
        let caller = match route.does {
            Does::Live => return Ok(ok(json!({ "status": "ok" }))),
            Does::Ready => return Ok(self.readiness()),
            Does::Describe => {
                return Ok(([(CONTENT_TYPE, "application/json")], self.description.clone())
                    .into_response());
            }
            Does::Welcome => return Ok(welcome(request.headers()).into_response()),
            _ => {
                let shown = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
                service.access.caller(shown)?.on(request.extensions().get())
            }
        };
        Ok(match route.does {
            Does::Open => self.open(&caller, self.fields(request).await?).await?,
            Does::Ask(read) => {
                let mut fields = self.fields(request).await?;
                let (handle, number) = (fields.handle()?, fields.number()?);
                let asked = read(&mut fields)?;
                fields.finish()?;
                self.ask(&caller, handle, number, asked).await?
            }
            Does::Cancel => {
                let mut fields = self.fields(request).await?;
                let (handle, request) = (fields.handle()?, fields.undone()?);
                fields.finish()?;
                self.ask(&caller, handle, 0, ClientMessage::Cancel(v1::Cancel { request })).await?
            }
            Does::Observe => {
                let hang_up = request.extensions().get().cloned();
                self.observe(&caller, &uri, hang_up)?
            }
            Does::Events => {
                let hang_up = request.extensions().get().cloned();
                let mut fields = self.fields(request).await?;
                let handle = fields.handle()?;
                fields.finish()?;
                events::events(&self.service, &caller, handle, hang_up)?
            }
            Does::Locks => ok(codec::locks(service, &caller, &query(&uri)?)),
            Does::Sessions => ok(codec::sessions(service, &caller, &query(&uri)?)?),
            Does::Elections => ok(codec::elections(service, &caller, &query(&uri)?)),
            Does::Why => {
                let named: v1::Named = query(&uri)?;
                named_at_all(&named.name, "name")?;
                ok(service.why(&caller, &named.name, |at, why| at.reasons(why))?)
            }
            Does::Graph => ok(service.graph(&caller, |at| at.graph())?),
            Does::Status => ok(codec::status(service.state())),
            Does::ForceRelease => {
                let take = self.fields(request).await?.read()?;
                ok(codec::force_release(service, &caller, take).await?)
            }
            Does::Expel => {
                let end = self.fields(request).await?.read()?;
                ok(codec::expel(service, &caller, end).await?)
            }
            Does::ExpelAll => {
                let end = self.fields(request).await?.read()?;
                ok(codec::expel_all(service, &caller, end).await?)
            }
            Does::Depose => {
                let end = self.fields(request).await?.read()?;
                ok(codec::depose(service, &caller, end).await?)
            }
            Does::Backup => {
                caller.may_all(Right::Admin)?;
                let file = service
                    .node
                    .backup()
                    .await
                    .map_err(|error| Failure::new(Code::Unavailable, error.to_string()))?;
                ([(CONTENT_TYPE, "application/octet-stream")], file).into_response()
            }
            Does::Metrics => {
                caller.may_all(Right::Observe)?;
                let accepted = request.headers().get_all(ACCEPT).iter();
                let accepted = accepted.filter_map(|value| value.to_str().ok());
                let format = Format::among(&accepted.collect::<Vec<_>>().join(","));
                let figures = format.of(service.node.figures());
                ([(CONTENT_TYPE, format.content_type())], figures).into_response()
            }
            Does::Upgrade => self.upgrade(caller, request)?,
            Does::Live | Does::Ready | Does::Describe | Does::Welcome => {
                unreachable!("answered above")
            }
        })
    }

    /// Reads a body, unless it does not come in time, or the server closes meanwhile.
    async fn fields(&self, request: Request) -> Result<Fields, Refusal> {
        let Service { closing, bounds, .. } = &*self.service;
        match closing.run_until_cancelled(Fields::of(request, bounds.patience)).await {
            Some(fields) => fields,
            None => Err(Failure::new(Code::Unavailable, STOPPING).into()),
        }
    }

    async fn open(&self, caller: &Caller, mut fields: Fields) -> Result<Response, Refusal> {
        let mut open: v1::Open = fields.read()?;
        if open.ttl_ms == 0 {
            open.ttl_ms = USUAL_TTL_MS;
        }
        let (key, answered) = self.service.open(caller, codec::new_session(open)).await?;
        let question = Question { session: SessionId(0), id: 0, key };
        match codec::reply(question, answered) {
            ServerMessage::Opened(v1::Opened { session, key, ttl_ms, deposed, .. }) => {
                let session = Handle { session, key }.to_string();
                let mut opened = json!({ "session": session, "ttl_ms": ttl_ms });
                // Only a session that was there already can have led.
                if !deposed.is_empty() {
                    opened["deposed"] = json!(deposed);
                }
                Ok(ok(opened))
            }
            _ => unreachable!("a session is opened or it is not"),
        }
    }

    async fn ask(
        &self,
        caller: &Caller,
        handle: Handle,
        id: u64,
        asked: ClientMessage,
    ) -> Result<Response, Refusal> {
        let session = SessionKey { session: SessionId(handle.session), key: handle.key };
        let answered = self.service.call(caller, session, codec::ask(asked, id, 0)?).await?;
        let question = Question { session: session.session, id, key: 0 };
        Ok(match codec::reply(question, answered) {
            ServerMessage::Granted(granted) => ok(granted),
            ServerMessage::Released(released) => ok(released),
            ServerMessage::Elected(elected) => ok(elected),
            ServerMessage::Alive(alive) => ok(alive),
            _ => ok(v1::Done {}),
        })
    }

    fn observe(
        &self,
        caller: &Caller,
        uri: &Uri,
        hang_up: Option<HangUp>,
    ) -> Result<Response, Refusal> {
        let v1::ObserveElection { election } = query(uri)?;
        named_at_all(&election, "election")?;
        let leaders = self.service.observe(caller, &election, hang_up)?;
        let leaders = leaders.map(|leader| codec::leader(&leader));
        let events = leaders.map(|leader| Event::default().event("leader").json_data(leader));
        Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
    }

    /// Goes on as a stream.
    fn upgrade(&self, caller: Caller, mut request: Request) -> Result<Response, Refusal> {
        let says = |name, value: &str| {
            let all = request.headers().get_all(name).iter().filter_map(|said| said.to_str().ok());
            all.flat_map(|said| said.split(',')).any(|said| said.trim().eq_ignore_ascii_case(value))
        };
        // A proxy that does not know of upgrades leaves out one of them.
        let wanted = says(UPGRADE, PLAIN) && says(CONNECTION, "upgrade");
        // What would come after it is to be messages.
        let wanted = wanted && request.method() == "GET" && request.body().is_end_stream();
        let upgrading = request.extensions_mut().remove::<OnUpgrade>().filter(|_| wanted);
        let upgrading = upgrading.ok_or_else(|| Refusal {
            status: StatusCode::UPGRADE_REQUIRED,
            failure: Failure::new(
                Code::BadRequest,
                format!("this needs HTTP/1.1 with Connection: Upgrade and Upgrade: {PLAIN}"),
            ),
        })?;
        let hang_up = request.extensions().get().cloned();
        let stream = ClientStream::new(self.service.clone(), caller, hang_up);
        tokio::spawn(upgrade::serve(upgrading, stream));
        let headers = [(CONNECTION, "upgrade"), (UPGRADE, PLAIN)];
        Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
    }

    fn readiness(&self) -> Response {
        match self.service.node.illness() {
            None => ok(json!({ "status": "ok" })),
            Some(trouble) => {
                Refusal::from(Failure::new(Code::Unavailable, trouble)).into_response()
            }
        }
    }
}

fn ok(answer: impl Serialize) -> Response {
    Json(answer).into_response()
}

fn named_at_all(name: &str, parameter: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        let message = format!("a lock or an election needs a name: ?{parameter}=…");
        return Err(Failure::new(Code::NoName, message).into());
    }
    Ok(())
}

impl From<Failure> for Refusal {
    /// A failure as HTTP has it.
    fn from(failure: Failure) -> Self {
        let status = StatusCode::from_u16(failure.code.http_status());
        Self { status: status.expect("the table has statuses"), failure }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { status, failure } = self;
        let failed = codec::failed(failure);
        let mut said = json!({ "code": failed.code, "message": failed.message });
        if !failed.cycle.is_empty() {
            said["cycle"] = serde_json::to_value(failed.cycle).unwrap_or(Value::Null);
        }
        if let Some(retry_ms) = failed.retry_ms {
            said["retry_ms"] = retry_ms.into();
        }
        let mut response = (status, Json(said)).into_response();
        let headers = response.headers_mut();
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::UPGRADE_REQUIRED => {
                headers.insert(UPGRADE, HeaderValue::from_static(PLAIN));
                headers.insert(CONNECTION, HeaderValue::from_static("upgrade, close"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

/// Nothing is there.
async fn no_such_path(request: Request) -> Response {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return tonic::Status::unimplemented("there is no such service")
            .into_http::<()>()
            .map(|_| axum::body::Body::empty());
    }
    let path = request.uri().path();
    let near = ROUTES.iter().find(|route| {
        let last = |path: &str| path.trim_end_matches('/').rsplit('/').next().map(str::to_owned);
        route.path.len() > 1 && last(route.path) == last(path)
    });
    let hint = match near {
        Some(route) => format!("there is {}", route.path),
        None => "GET /openapi.json says what there is".to_owned(),
    };
    let message = format!("there is nothing at {path:?}; {hint}");
    Refusal::from(Failure::new(Code::NotFound, message)).into_response()
}

/// Something is there, but it is asked in another way.
async fn other_method(request: Request) -> Response {
    let path = request.uri().path();
    let methods =
        ROUTES.iter().filter(|route| route.path == path).map(|route| match route.method {
            Method::Get => "GET",
            Method::Post => "POST",
        });
    let methods = methods.collect::<Vec<_>>().join(", ");
    let message = format!("{path} takes {methods}, not {}", request.method());
    let failure = Failure::new(Code::BadRequest, message);
    let mut response = Refusal { status: StatusCode::METHOD_NOT_ALLOWED, failure }.into_response();
    if let Ok(methods) = methods.parse() {
        response.headers_mut().insert(ALLOW, methods);
    }
    response
}

/// What to try.
fn welcome(headers: &HeaderMap) -> String {
    let plain = |host: &&str| {
        host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte))
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).filter(plain);
    include_str!("http/welcome.txt").replace("{host}", host.unwrap_or(DEFAULT_ADDRESS))
}
