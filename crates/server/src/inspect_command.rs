//! The subcommand `inspect`: shows what is in a data directory that no server is using.
//!
//! Called by `main`. `commands::inspect` reads; here is the command line, the directory's lock and the printing.

use std::io::{self, Write};
use std::path::PathBuf;

use bson::{Bson, Document};
use clap::{Args, Subcommand};
use commands::inspect::{self, Subject};
use platform::{DirectoryLock, RealDisk};

use server::data_disk::{self, KeyArguments, Unencrypted};

/// The command line of `inspect`.
#[derive(Args)]
pub(crate) struct InspectArguments {
    /// Directory of the data
    #[arg(long, value_name = "DIR", default_value = "data", global = true)]
    data: PathBuf,
    /// One line of extended JSON for each thing
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    key: KeyArguments,
    #[command(subcommand)]
    subject: Option<InspectSubject>,
}

#[derive(Subcommand)]
enum InspectSubject {
    /// The two superblocks of the page file
    Superblock,
    /// The page-table files and the checkpoints in them
    Checkpoints,
    /// Every tree by collection and index, with sizes: reads all pages
    Trees,
    /// One page: header, fences, entries
    Page {
        /// Its number
        id: u64,
    },
    /// Entries of the oplog
    Oplog {
        /// Position of the first entry shown
        #[arg(long, value_name = "N", default_value_t = 0)]
        from: u64,
        /// Entries shown at most
        #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
        limit: u64,
    },
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &InspectArguments) -> Result<(), String> {
    let data = arguments.data.display();
    data_disk::check_is_there(&arguments.data)?;
    // Held while the files are read: a server would change them.
    let _lock = DirectoryLock::acquire(&arguments.data)
        .map_err(|error| format!("{error}; stop it first, or look at a copy of the directory"))?;
    let disk = RealDisk::new(&arguments.data).map_err(|error| format!("cannot use {data}: {error}"))?;
    let disk = data_disk::open(disk, &arguments.data, arguments.key.source()?.as_ref(), Unencrypted::Refuse)?;
    let subjects = match &arguments.subject {
        None => vec![Subject::Superblock, Subject::Checkpoints, Subject::Trees],
        Some(InspectSubject::Superblock) => vec![Subject::Superblock],
        Some(InspectSubject::Checkpoints) => vec![Subject::Checkpoints],
        Some(InspectSubject::Trees) => vec![Subject::Trees],
        Some(InspectSubject::Page { id }) => vec![Subject::Page(*id)],
        Some(InspectSubject::Oplog { from, limit }) => vec![Subject::Oplog { from: *from, limit: *limit }],
    };
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut printed = Ok(());
    for subject in subjects {
        inspect::inspect(disk.clone(), subject, &mut |document| {
            if printed.is_ok() {
                printed = print(&mut output, document, arguments.json);
            }
        })?;
    }
    match printed.and_then(|()| output.flush()) {
        // Whoever reads has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map_err(|error| format!("cannot print: {error}")),
    }
}

fn print(output: &mut impl Write, document: Document, as_json: bool) -> io::Result<()> {
    if as_json {
        return writeln!(output, "{}", Bson::Document(document).into_canonical_extjson());
    }
    print_fields(output, &document)?;
    writeln!(output)
}

/// A field a line; the documents of an array one a line, indented.
fn print_fields(output: &mut impl Write, document: &Document) -> io::Result<()> {
    for (name, value) in document {
        match value {
            Bson::Array(items) if items.iter().any(|item| item.as_document().is_some()) => {
                writeln!(output, "{name}:")?;
                for item in items {
                    writeln!(output, "  {}", item.clone().into_relaxed_extjson())?;
                }
            }
            Bson::String(text) => writeln!(output, "{name}: {text}")?,
            value => writeln!(output, "{name}: {}", value.clone().into_relaxed_extjson())?,
        }
    }
    Ok(())
}
