//! `plimsoll layout`: how linear a capped collection lies on disk, as SERVER-17561 measures it.
//!
//! Called by the `plimsoll` binary. Positions come from a server that tells them (`plimsollPositions`), or from a file with a list of them in natural
//! order. The figure is that of the ticket; the picture shows position against document number, in the terminal and as SVG or PNG.

mod figure;
mod picture;
mod positions;

use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use figure::fragmentation;
pub(crate) use picture::{Panel, svg};
pub(crate) use positions::from_server;

use crate::error::LabError;

/// The arguments of `plimsoll layout`.
#[derive(Debug, clap::Args)]
pub struct LayoutArguments {
    /// Connection string of the server
    #[arg(value_name = "URI", required_unless_present = "positions")]
    uri: Option<String>,
    /// The capped collection
    #[arg(value_name = "DATABASE.COLLECTION", required_unless_present = "positions")]
    namespace: Option<String>,
    /// A file with positions in natural order, one a line: bytes, or FILE:OFFSET as MMAPv1 has them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["uri", "namespace"])]
    positions: Option<PathBuf>,
    /// Draw the layout here; .svg or .png
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// When the positions cannot be had, or the picture cannot be written.
pub async fn run(arguments: LayoutArguments) -> Result<ExitCode, LabError> {
    let (title, positions) = match (&arguments.positions, &arguments.uri, &arguments.namespace) {
        (Some(path), _, _) => (path.display().to_string(), positions::from_file(path)?),
        (None, Some(uri), Some(namespace)) => (namespace.clone(), from_server(uri, namespace).await?),
        _ => return Err(LabError::Unsupported("a server and a collection are needed, or --positions".to_owned())),
    };
    print!("{}", picture::terminal(&positions));
    println!("documents      {}", positions.len());
    match fragmentation(&positions) {
        Some(figure) => println!("fragmentation  {figure:.2}   (1 is linear, above 60 is trouble)"),
        None => println!("fragmentation  none: too few documents"),
    }
    if let Some(path) = &arguments.picture {
        let panel = Panel { title, positions };
        let is_png = path.extension().is_some_and(|extension| extension == "png");
        let bytes = if is_png { picture::png(&panel) } else { svg(&[panel]).into_bytes() };
        std::fs::write(path, bytes).map_err(|source| LabError::Output { path: path.clone(), source })?;
    }
    Ok(ExitCode::SUCCESS)
}
