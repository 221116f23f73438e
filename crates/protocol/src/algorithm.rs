use std::ops::Range;

use crate::numbered::Values;
use crate::{Client, Entry, Host, Hosted, Info, Numbered, Protocol, Setup, Unfit};

/// An algorithm as it stands in the catalogue, for those who do not know its types.
///
/// Every [`Entry`] is one. Drivers are written against this, so that they are compiled once.
pub trait Algorithm: Sync {
    /// What is said about it, and what it assumes and promises.
    fn info(&self) -> &Info;

    /// The nodes whose applications ask by default, in a system of the given make-up.
    fn clients(&self, setup: &Setup) -> Result<Range<u32>, Unfit>;

    /// The nodes of such a system, all of them down.
    fn host(&self, setup: &Setup) -> Result<Box<dyn Host>, Unfit>;

    /// Its rules and its applications in such a system, as functions of numbers.
    fn numbered(&self, setup: &Setup) -> Result<Box<dyn Numbered>, Unfit>;
}

/// A notice that says which application hears it. Each family of algorithms has one.
pub trait HeardBy {
    /// The application.
    type Client;
}

/// The application that hears what the nodes of `P` say.
type Listener<P> = <<P as Protocol>::Notice as HeardBy>::Client;

impl<P: Protocol> Algorithm for Entry<P>
where
    P::Notice: HeardBy<Client: Client<P>>,
{
    fn info(&self) -> &Info {
        &self.info
    }

    fn clients(&self, setup: &Setup) -> Result<Range<u32>, Unfit> {
        let config = (self.config)(setup)?;
        Ok((self.clients)(&config, setup.n()))
    }

    fn host(&self, setup: &Setup) -> Result<Box<dyn Host>, Unfit> {
        let config = (self.config)(setup)?;
        Ok(Box::new(Hosted::<P, Listener<P>>::new(config, setup.n())))
    }

    fn numbered(&self, setup: &Setup) -> Result<Box<dyn Numbered>, Unfit> {
        let config = (self.config)(setup)?;
        Ok(Box::new(Values::<P, Listener<P>>::new(config)))
    }
}
