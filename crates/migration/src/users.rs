//! Users and roles, as `mongorestore` carries them: into two collections beside, then taken in by `_mergeAuthzCollections`. Called by `copy`.

use bson::{Document, RawDocumentBuf, doc};
use mongodb::Client;

use crate::error::{CopyError, reason};
use crate::report::Report;

const USERS: (&str, &str) = ("system.users", "tempusers");
const ROLES: (&str, &str) = ("system.roles", "temproles");

/// Copies those of all databases. Those that the target has stay, unless the source has one of the name.
pub(crate) async fn copy(source: &Client, target: &Client, report: &mut Report) -> Result<(), CopyError> {
    let mut counts = [0_u64; 2];
    for ((from, to), count) in [USERS, ROLES].into_iter().zip(&mut counts) {
        let what = || CopyError::command(format!("copy admin.{from}"));
        let beside = target.database("admin").collection::<RawDocumentBuf>(to);
        beside.drop().await.map_err(what())?;
        let mut cursor =
            source.database("admin").collection::<RawDocumentBuf>(from).find(doc! {}).await.map_err(what())?;
        while cursor.advance().await.map_err(what())? {
            beside.insert_one(cursor.current().to_owned()).await.map_err(what())?;
            *count += 1;
        }
    }
    let merge = doc! {
        "_mergeAuthzCollections": 1, "tempUsersCollection": format!("admin.{}", USERS.1), "tempRolesCollection": format!("admin.{}", ROLES.1),
        "db": "", "drop": false,
    };
    match target.database("admin").run_command(merge).await {
        Ok(_) => (report.users, report.roles) = (counts[0], counts[1]),
        Err(error) => report.left("users and roles".to_owned(), reason(&error)),
    }
    for (_, name) in [USERS, ROLES] {
        target
            .database("admin")
            .collection::<Document>(name)
            .drop()
            .await
            .map_err(CopyError::command(format!("drop admin.{name}")))?;
    }
    Ok(())
}
