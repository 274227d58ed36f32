//! A user as he is stored in `admin.system.users`, in MongoDB's shape.
//!
//! ```text
//! { _id: "db.name", userId: UUID, user, db, credentials: { "SCRAM-SHA-256": { iterationCount, salt, storedKey, serverKey } },
//!   customData?, roles: [ { role, db } ], authenticationRestrictions? }
//! ```

use authentication::{Mechanism, ScramCredentials};
use bson::spec::BinarySubtype;
use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, Uuid};
use document::{Number, get_field};

use super::names::{RoleName, UserName, read_roles, write_roles};
use super::restrictions::Restrictions;
use super::{USERS, find, first, for_each, put, remove};
use crate::DocumentWriter;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::state::writing::Writing;

/// See the module's head.
#[derive(Debug, Clone)]
pub(crate) struct StoredUser {
    pub(crate) name: UserName,
    pub(crate) user_id: Option<Uuid>,
    pub(crate) credentials: Vec<ScramCredentials>,
    /// Whether somebody else vouches for him: a user of `$external`.
    pub(crate) is_external: bool,
    pub(crate) custom_data: Option<RawDocumentBuf>,
    pub(crate) roles: Vec<RoleName>,
    pub(crate) restrictions: Option<RawArrayBuf>,
}

/// The id in a binary of the UUID kind.
fn uuid(value: RawBsonRef<'_>) -> Option<Uuid> {
    match value {
        RawBsonRef::Binary(binary) if binary.subtype == BinarySubtype::Uuid => {
            binary.bytes.try_into().ok().map(Uuid::from_bytes)
        }
        _ => None,
    }
}

impl StoredUser {
    /// The user of a name.
    pub(crate) fn find(writing: &Writing, name: &UserName) -> Result<Option<Self>> {
        find(writing, USERS, &name.id())?.map(|document| Self::decode(&document)).transpose()
    }

    /// The user of a name, for a login: it must not tell by its time whether there is one. So another user is read in any case, and one
    /// of the two is decoded.
    pub(crate) fn find_for_login(writing: &Writing, name: &UserName) -> Result<Option<Self>> {
        let found = find(writing, USERS, &name.id())?;
        let other = std::hint::black_box(first(writing, USERS)?);
        if let Some(document) = &found {
            return Self::decode(document).map(Some);
        }
        // What is wrong with the other is nobody's business here.
        let _ = std::hint::black_box(other.map(|document| Self::decode(&document)));
        Ok(None)
    }

    /// All users, in the order in which they are stored. What is none is left out.
    pub(crate) fn all(writing: &Writing, mut each: impl FnMut(Self) -> Result<()>) -> Result<()> {
        for_each(writing, USERS, |document| Self::decode(document).map_or(Ok(()), &mut each))
    }

    /// Stores him, in the place of what there was.
    pub(crate) fn put(&self, writing: &Writing) -> Result<()> {
        put(writing, USERS, &self.name.id(), &self.encode()?)
    }

    /// Removes the user of a name.
    pub(crate) fn remove(writing: &Writing, name: &UserName) -> Result<bool> {
        remove(writing, USERS, &name.id())
    }

    /// What is stored.
    pub(crate) fn decode(document: &RawDocument) -> Result<Self> {
        let malformed = |what: &str| CommandError::failed_to_parse(format!("a user's document has no valid '{what}'"));
        let text =
            |name: &str| get_field(document, name).and_then(|value| value.as_str()).ok_or_else(|| malformed(name));
        let name = UserName::new(text("user")?, text("db")?);
        let stored = get_field(document, "credentials").and_then(|value| value.as_document());
        let stored = stored.ok_or_else(|| malformed("credentials"))?;
        let credentials = Mechanism::ALL.into_iter().filter_map(|mechanism| {
            let of_mechanism = get_field(stored, mechanism.name())?.as_document()?;
            Some(decode_credentials(mechanism, of_mechanism))
        });
        let roles = match get_field(document, "roles") {
            Some(RawBsonRef::Array(array)) => read_stored_roles(array),
            _ => Vec::new(),
        };
        let restrictions = match get_field(document, "authenticationRestrictions") {
            Some(RawBsonRef::Array(array)) => Some(array.to_owned()),
            _ => None,
        };
        Ok(Self {
            user_id: get_field(document, "userId").and_then(uuid),
            credentials: credentials.collect::<Result<_>>()?,
            is_external: get_field(stored, "external").is_some(),
            custom_data: get_field(document, "customData").and_then(|data| Some(data.as_document()?.to_owned())),
            roles,
            restrictions,
            name,
        })
    }

    pub(super) fn encode(&self) -> Result<RawDocumentBuf> {
        document_of(|document| {
            document.string("_id", &self.name.id());
            self.user_id.into_iter().for_each(|id| document.uuid("userId", id));
            self.name.write("user", document);
            self.write_credentials(document);
            self.custom_data.iter().for_each(|data| document.embed("customData", data));
            write_roles("roles", &self.roles, document);
            if let Some(restrictions) = &self.restrictions {
                document.value("authenticationRestrictions", RawBsonRef::Array(restrictions));
            }
        })
    }

    /// Writes what is kept of his password.
    pub(crate) fn write_credentials(&self, document: &mut DocumentWriter<'_>) {
        document.document("credentials", |all| {
            if self.is_external {
                all.boolean("external", true);
            }
            for credentials in &self.credentials {
                let [salt, stored_key, server_key] = credentials.encoded();
                all.document(credentials.mechanism.name(), |one| {
                    one.count("iterationCount", u64::from(credentials.iterations));
                    one.string("salt", &salt);
                    one.string("storedKey", &stored_key);
                    one.string("serverKey", &server_key);
                });
            }
        });
    }

    /// The names of the mechanisms by which he can log in.
    pub(crate) fn mechanisms(&self) -> impl Iterator<Item = &'static str> + '_ {
        let external = self.is_external.then_some("external");
        external.into_iter().chain(self.credentials.iter().map(|credentials| credentials.mechanism.name()))
    }

    /// From where he may log in, by himself.
    pub(crate) fn restrictions(&self) -> Result<Restrictions> {
        self.restrictions.as_deref().map_or_else(|| Ok(Restrictions::default()), Restrictions::parse)
    }
}

/// The roles that are stored; what is none is nothing.
pub(super) fn read_stored_roles(array: &bson::RawArray) -> Vec<RoleName> {
    read_roles("roles", array, "").unwrap_or_default()
}

fn decode_credentials(mechanism: Mechanism, stored: &RawDocument) -> Result<ScramCredentials> {
    let text = |name: &str| get_field(stored, name).and_then(|value| value.as_str()).unwrap_or_default();
    let iterations =
        get_field(stored, "iterationCount").and_then(Number::from_bson).and_then(|count| count.to_i64_exact());
    let decoded = ScramCredentials::decode(
        mechanism,
        iterations.unwrap_or_default(),
        text("salt"),
        text("storedKey"),
        text("serverKey"),
    );
    decoded.map_err(|error| CommandError::failed_to_parse(error.to_string()))
}
