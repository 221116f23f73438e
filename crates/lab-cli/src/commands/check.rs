//! `conclave check`: every run of a small system, or a shortest one that violates a property.

mod all;
pub mod args;
mod budgets;
mod crashes;
mod grid;
mod messages;
mod search;
mod text;

use std::io::Write;

use conclave_lab::check::{Checked, Ending, Searcher};
use conclave_lab::find;

pub use self::args::Args;
use self::search::Search;
use super::run::save;
use crate::{Done, Failure, Terminal, print_json};

/// What to know about the end of a check, for `--help`.
pub const ENDS: &str = "\
Examples:
  conclave check mutex/ricart-agrawala --nodes 3
  conclave check mutex/ra-no-tie-break --nodes 3 --trace broken.json
  conclave check election --crash-table
  conclave check --all

How a check ends:
  A violation that breaks a promise of the algorithm within its model, or is what a mutant is there
  to break, ends it with 1. One that the algorithm never denied, or beyond its model, is shown, and
  ends it with 0. A search that a limit stops before it is done ends it with 6, unless it has found
  a broken promise by then; what is violated after so many steps is violated, what holds so far is
  said to. With --all, a failure that the catalogue claims and that is not found is as bad as a
  broken promise.";

/// Checks an algorithm, or the whole catalogue.
pub fn perform(args: &Args, terminal: &Terminal, out: &mut dyn Write) -> Result<Done, Failure> {
    let search = Search::begin(terminal);
    let Some(id) = &args.id else {
        return all::perform(args, &search, terminal, out);
    };
    if args.deep {
        return Err(Failure::Usage("--deep is about --all".to_owned()));
    }
    if args.crash_table {
        return crashes::perform(id, args, &search, terminal, out);
    }
    let info = find(id)?;
    let flags = args.flags()?;
    if args.budget_table {
        return budgets::perform(args, info, &flags.spec(info)?, &search, terminal, out);
    }
    let spec = flags.allowed(info)?;
    let caught = match args.search.hunt {
        Some(seed) => search.hunt(&spec, seed)?,
        None => None,
    };
    let mut searched = search.search(&spec, info.id)?;
    search.clear();
    if let Some(caught) = &caught {
        searched.add(caught);
    }
    let checked = Checked::new(info, &spec, &searched, caught)?;
    if let Some(path) = &args.trace {
        match checked.blamed() {
            Some(witness) => save(path, &witness.file())?,
            None => {
                let path = path.display();
                // Standard error may be closed; then there is no reader to tell.
                let _ = writeln!(terminal.stderr(), "nothing was violated: {path} is not written");
            }
        }
    }
    if args.json {
        print_json(&checked.data(), out)?;
    } else {
        text::print(&checked, args, terminal, out)?;
    }
    Ok(checked.ending().into())
}

impl From<Ending> for Done {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Well => Self::Well,
            Ending::Violated => Self::Violated,
            Ending::Stopped => Self::Stopped,
            Ending::Interrupted => Self::Interrupted,
        }
    }
}
