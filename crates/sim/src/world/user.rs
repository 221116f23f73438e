//! An application for tests, which enters and leaves again and again.

use conclave_protocol::{Client, Observable, Observation, Protocol};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Request {
    Acquire,
    Release,
}

impl Observable for Request {
    fn observation(&self) -> Observation {
        if *self == Self::Acquire { Observation::Asked } else { Observation::Left }
    }
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum User {
    #[default]
    Out,
    Waiting,
    Inside,
}

impl<P: Protocol<Request = Request>> Client<P> for User {
    fn requests(&self) -> impl IntoIterator<Item = Request> {
        match self {
            Self::Out => Some(Request::Acquire),
            Self::Waiting => None,
            Self::Inside => Some(Request::Release),
        }
    }

    fn on_request(&mut self, request: &Request) {
        *self = if *request == Request::Acquire { Self::Waiting } else { Self::Out };
    }

    fn on_notice(&mut self, notice: &P::Notice) {
        let entered = matches!(notice.observation(), Observation::Entered { .. });
        *self = if entered { Self::Inside } else { Self::Out };
    }
}
