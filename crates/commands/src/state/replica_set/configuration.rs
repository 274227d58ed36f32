//! The configuration of a replica set of one member: read from commands and from disk, checked, and told as `replSetGetConfig` tells it.
//!
//! Used by `replica_set` and by the commands in `replication`. What concerns other members (heartbeats, catching up, chaining) is checked, kept and told,
//! since it is a part of the configuration; what would make this member another than it is (an arbiter, hidden, delayed, without votes) is refused.

use bson::oid::ObjectId;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use document::{Number, elements};

use crate::DocumentWriter;
use crate::request::arguments::Field;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::state::replica_set::members::{SetLook, SetMembers};

/// The port that goes without saying.
const DEFAULT_PORT: u16 = 27017;
/// Most members that a set may have, in MongoDB.
const MEMBERS_MAX: usize = 50;

/// Numbers of `settings`, with their defaults and least values.
const NUMBERS: &[(&str, i64, i64)] = &[
    ("heartbeatIntervalMillis", 2000, 1),
    ("heartbeatTimeoutSecs", 10, 1),
    ("electionTimeoutMillis", 10_000, 1),
    ("catchUpTimeoutMillis", -1, -1),
    ("catchUpTakeoverDelayMillis", 30_000, -1),
];

/// See the module's head.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Configuration {
    /// The set's name.
    pub(crate) name: String,
    pub(crate) version: i32,
    /// The term in which it was made, or taken over by a new primary.
    pub(crate) term: i64,
    pub(crate) member: Member,
    pub(crate) settings: Settings,
}

/// The one member.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    id: i32,
    /// Where clients find it.
    pub(crate) host: String,
    pub(crate) priority: f64,
    /// Names and values.
    pub(crate) tags: Vec<(String, String)>,
}

/// A write concern's name, and for each tag how many different values of it are asked for.
type Mode = (String, Vec<(String, i64)>);

/// What is set of the set as a whole.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    chaining_allowed: bool,
    /// In the order of [`NUMBERS`].
    numbers: [i64; NUMBERS.len()],
    /// Write concerns with names.
    modes: Vec<Mode>,
    /// Of the set, for ever.
    id: Option<ObjectId>,
}

impl Default for Settings {
    fn default() -> Self {
        let mut numbers = [0; NUMBERS.len()];
        numbers.iter_mut().zip(NUMBERS).for_each(|(number, (_, default, _))| *number = *default);
        Self { chaining_allowed: true, numbers, modes: Vec::new(), id: None }
    }
}

/// The error for a configuration that cannot be.
pub(crate) fn invalid(message: impl Into<String>) -> CommandError {
    CommandError::named("InvalidReplicaSetConfig", message)
}

/// `HOST:PORT`, with the port put in where there is none.
pub(crate) fn host_with_port(text: &str) -> Result<String> {
    let wrong = || CommandError::failed_to_parse(format!("'{text}' is not an address of the form HOST:PORT"));
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port),
        // An IPv6 address needs brackets when it has a port.
        Some(_) if !text.ends_with(']') => return Err(wrong()),
        _ => return if text.is_empty() { Err(wrong()) } else { Ok(format!("{text}:{DEFAULT_PORT}")) },
    };
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if host.is_empty() || !is_port || host.contains(char::is_whitespace) { Err(wrong()) } else { Ok(text.to_owned()) }
}

impl Configuration {
    /// Of a set that has just this member, all else as it goes without saying.
    pub(crate) fn of_one(name: &str, host: &str) -> Self {
        let member = Member { id: 0, host: host.to_owned(), priority: 1.0, tags: Vec::new() };
        Self { name: name.to_owned(), version: 1, term: 0, member, settings: Settings::default() }
    }

    /// Reads it as clients send it and as it is stored.
    ///
    /// # Errors
    /// InvalidReplicaSetConfig, and those of wrong types; NotImplemented for what such a set cannot be.
    pub(crate) fn parse(source: &RawDocument) -> Result<Self> {
        let (mut name, mut version, mut term, mut member) = (None, None, 0, None);
        let mut settings = Settings::default();
        for element in elements(source) {
            let field = Field::of("ReplSetConfig", element);
            match field.name() {
                "_id" => name = Some(field.required(Field::string)?.to_owned()),
                "version" => version = Some(field.required(Field::integer)?),
                "term" => term = field.required(Field::integer)?,
                "members" => member = Some(only_member(field)?),
                "settings" => settings = Settings::parse(field.required(Field::document)?)?,
                "protocolVersion" if field.required(Field::integer)? == 1 => {}
                "protocolVersion" => return Err(invalid("protocolVersion has to be 1")),
                "writeConcernMajorityJournalDefault" if field.boolean()? => {}
                "configsvr" if !field.boolean()? => {}
                "writeConcernMajorityJournalDefault" | "configsvr" => return Err(field.not_implemented()),
                _ => return Err(field.unknown()),
            }
        }
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| invalid("the configuration needs the name of the set as its _id"))?;
        let version = version.unwrap_or(1);
        let in_range = i32::try_from(version).ok().filter(|version| *version > 0);
        let version = in_range.ok_or_else(|| {
            invalid(format!("version field value of {version} is out of range, it has to be from 1 to 2147483647"))
        })?;
        let member = member.ok_or_else(|| invalid("a replica set needs members"))?;
        Ok(Self { name, version, term, member, settings })
    }

    /// The same of a set whose members follow a shared log: they join by being started with it, so the list may leave out those that are gone, and names no others.
    /// Gives the hosts that it leaves out, too.
    ///
    /// # Errors
    /// As `parse`; InvalidReplicaSetConfig for a host that is no member.
    pub(crate) fn parse_of_members(source: &RawDocument, look: &SetLook, own: &str) -> Result<(Self, Vec<String>)> {
        let Some(RawBsonRef::Array(listed)) = document::get_field(source, "members") else {
            return Err(invalid("a replica set needs members"));
        };
        let mut hosts = Vec::new();
        let mut member = None;
        for listed in document::array_elements(listed) {
            let listed = Member::parse(Field::of("ReplSetConfig.members", listed).required(Field::document)?)?;
            if !look.members.iter().any(|known| known.host == listed.host) && listed.host != own {
                let host = listed.host;
                let message = format!(
                    "{host} is no member: start a server with --log and --advertise {host}, and it joins by itself"
                );
                return Err(invalid(message));
            }
            hosts.push(listed.host.clone());
            if listed.host == own {
                member = Some(listed);
            }
        }
        let member = member.ok_or_else(|| invalid("the primary cannot be left out: let it step down first"))?;
        let gone = look.members.iter().filter(|known| !hosts.contains(&known.host));
        if let Some(alive) = gone.clone().find(|known| known.is_alive) {
            let message = format!("{} still follows the log: stop it before it is left out", alive.host);
            return Err(invalid(message));
        }
        let gone = gone.map(|known| known.host.clone()).collect();
        let alone = Self { member, ..Self::of_one("", own) }.to_document()?;
        let mut rewritten = RawDocumentBuf::new();
        for element in elements(source) {
            match element.name() {
                "members" => {
                    let members = document::get_field(&alone, "members").unwrap_or(RawBsonRef::Null);
                    rewritten.append(bson::raw::cstr!("members"), members);
                }
                name => {
                    let name = bson::raw::CString::try_from(name).map_err(|_| invalid("a name with a zero byte"))?;
                    rewritten.append(name, element.value());
                }
            }
        }
        Ok((Self::parse(&rewritten)?, gone))
    }

    /// As it is told: with all members, if there are others.
    pub(crate) fn with_members(&self, members: Option<&dyn SetMembers>) -> Result<RawDocumentBuf> {
        let Some(look) = members.map(SetMembers::look) else { return self.to_document() };
        document_of(|document| {
            self.write_head(document);
            document.array("members", |list| {
                for known in &look.members {
                    let own = Member {
                        id: look.number(&known.host),
                        host: known.host.clone(),
                        priority: if known.is_self { self.member.priority } else { 1.0 },
                        tags: known.tags.clone(),
                    };
                    list.push_document(|member| own.write(member));
                }
            });
            self.write_tail(document);
        })
    }

    fn write_head(&self, document: &mut DocumentWriter<'_>) {
        document.string("_id", &self.name);
        document.int32("version", self.version);
        document.int64("term", self.term);
    }

    fn write_tail(&self, document: &mut DocumentWriter<'_>) {
        document.int64("protocolVersion", 1);
        document.boolean("writeConcernMajorityJournalDefault", true);
        document.document("settings", |settings| self.settings.write(settings));
    }

    /// With the member's number of another one.
    pub(crate) fn with_member_number(mut self, other: &Configuration) -> Self {
        self.member.id = other.member.id;
        self
    }

    /// With an identity of the set, if it has none yet.
    pub(crate) fn with_id(mut self, id: ObjectId) -> Self {
        self.settings.id.get_or_insert(id);
        self
    }

    /// The identity of the set.
    pub(crate) fn id(&self) -> Option<ObjectId> {
        self.settings.id
    }

    /// How often members would ask after each other.
    pub(crate) fn heartbeat_interval_millis(&self) -> i64 {
        self.settings.numbers[0]
    }

    /// The time after which members would elect another primary.
    pub(crate) fn election_timeout_millis(&self) -> i64 {
        self.settings.numbers[2]
    }

    /// Whether this set can satisfy a write concern with a name; `None`: there is none of this name.
    pub(crate) fn can_satisfy(&self, mode: &str) -> Option<bool> {
        let (_, tags) = self.settings.modes.iter().find(|(name, _)| name == mode)?;
        let has = |tag: &str| self.member.tags.iter().any(|(name, _)| name == tag);
        Some(tags.iter().all(|(tag, values)| *values <= 1 && has(tag)))
    }

    /// The configuration as it is told and stored.
    pub(crate) fn to_document(&self) -> Result<RawDocumentBuf> {
        document_of(|document| {
            self.write_head(document);
            document.array("members", |members| members.push_document(|member| self.member.write(member)));
            self.write_tail(document);
        })
    }
}

fn only_member(field: Field<'_>) -> Result<Member> {
    let members: Vec<&RawDocument> = field.required(Field::documents)?;
    match members.as_slice() {
        [member] => Member::parse(member),
        [] => Err(invalid("a replica set has at least one member")),
        many if many.len() > MEMBERS_MAX => Err(invalid(format!("a replica set has at most {MEMBERS_MAX} members"))),
        many => Err(CommandError::not_implemented(format!("a replica set of {} members", many.len()))),
    }
}

impl Member {
    fn parse(source: &RawDocument) -> Result<Self> {
        let (mut id, mut host, mut priority, mut tags) = (None, None, 1.0, Vec::new());
        for element in elements(source) {
            let field = Field::of("MemberConfig", element);
            match field.name() {
                "_id" => id = Some(field.required(Field::integer)?),
                "host" => host = Some(host_with_port(field.required(Field::string)?)?),
                "priority" => priority = number(field)?,
                "tags" => tags = parse_tags(field.required(Field::document)?)?,
                "votes" if field.required(Field::integer)? == 1 => {}
                "votes" => return Err(invalid("the only member of a replica set has one vote")),
                "secondaryDelaySecs" | "slaveDelay" if field.required(Field::integer)? == 0 => {}
                "arbiterOnly" | "hidden" if !field.boolean()? => {}
                "buildIndexes" if field.boolean()? => {}
                "arbiterOnly" | "hidden" | "secondaryDelaySecs" | "slaveDelay" | "buildIndexes" => {
                    let message = format!(
                        "the only member of a replica set has to be able to be its primary, which '{}' forbids",
                        field.name()
                    );
                    return Err(invalid(message));
                }
                "horizons" if field.required(Field::document)?.is_empty() => {}
                "horizons" => return Err(field.not_implemented()),
                _ => return Err(field.unknown()),
            }
        }
        let id = id.and_then(|id| i32::try_from(id).ok()).filter(|id| (0..=255).contains(id));
        let id = id.ok_or_else(|| invalid("a member needs an _id from 0 to 255"))?;
        let host = host.ok_or_else(|| invalid("a member needs a host"))?;
        if !(0.0..=1000.0).contains(&priority) {
            return Err(invalid("priority must be between 0 and 1000"));
        }
        if priority == 0.0 {
            return Err(invalid("a replica set must have at least one member that is no arbiter and has priority > 0"));
        }
        Ok(Self { id, host, priority, tags })
    }

    fn write(&self, member: &mut DocumentWriter<'_>) {
        member.int32("_id", self.id);
        member.string("host", &self.host);
        member.boolean("arbiterOnly", false);
        member.boolean("buildIndexes", true);
        member.boolean("hidden", false);
        member.double("priority", self.priority);
        member.document("tags", |tags| self.tags.iter().for_each(|(name, value)| tags.string(name, value)));
        member.int64("secondaryDelaySecs", 0);
        member.int32("votes", 1);
    }

    /// Its number in the set.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }
}

fn number(field: Field<'_>) -> Result<f64> {
    Number::from_bson(field.value()).map(Number::to_f64).ok_or_else(|| field.wrong_type("a number"))
}

fn parse_tags(source: &RawDocument) -> Result<Vec<(String, String)>> {
    elements(source)
        .map(|element| {
            let field = Field::of("tags", element);
            Ok((field.name().to_owned(), field.required(Field::string)?.to_owned()))
        })
        .collect()
}

impl Settings {
    fn parse(source: &RawDocument) -> Result<Self> {
        let mut settings = Self::default();
        for element in elements(source) {
            let field = Field::of("ReplSetConfigSettings", element);
            let known = NUMBERS.iter().zip(&mut settings.numbers).find(|((name, ..), _)| *name == field.name());
            if let Some(((name, _, least), number)) = known {
                *number = field.required(Field::integer)?;
                if *number < *least {
                    return Err(invalid(format!("{name} must be greater than or equal to {least}")));
                }
                continue;
            }
            match field.name() {
                "chainingAllowed" => settings.chaining_allowed = field.boolean()?,
                "getLastErrorModes" => settings.modes = parse_modes(field.required(Field::document)?)?,
                "getLastErrorDefaults" => check_last_error_defaults(field.required(Field::document)?)?,
                "replicaSetId" => settings.id = Some(object_id(field)?),
                _ => return Err(field.unknown()),
            }
        }
        Ok(settings)
    }

    fn write(&self, settings: &mut DocumentWriter<'_>) {
        settings.boolean("chainingAllowed", self.chaining_allowed);
        for ((name, ..), number) in NUMBERS.iter().zip(self.numbers) {
            put_number(settings, name, number);
        }
        settings.document("getLastErrorModes", |modes| {
            for (name, tags) in &self.modes {
                modes.document(name, |mode| tags.iter().for_each(|(tag, values)| put_number(mode, tag, *values)));
            }
        });
        settings.document("getLastErrorDefaults", |defaults| {
            defaults.int32("w", 1);
            defaults.int32("wtimeout", 0);
        });
        if let Some(id) = self.id {
            settings.object_id("replicaSetId", id);
        }
    }
}

fn parse_modes(source: &RawDocument) -> Result<Vec<Mode>> {
    let mode = |field: Field<'_>| {
        let tags = elements(field.required(Field::document)?).map(|tag| {
            let tag = Field::of("getLastErrorModes", tag);
            match tag.required(Field::integer)? {
                values if values >= 1 => Ok((tag.name().to_owned(), values)),
                _ => Err(invalid(format!("the tag '{}' of a write concern needs a positive number", tag.name()))),
            }
        });
        Ok((field.name().to_owned(), tags.collect::<Result<Vec<_>>>()?))
    };
    elements(source).map(|element| mode(Field::of("getLastErrorModes", element))).collect()
}

/// Defaults of write concerns are set by `setDefaultRWConcern`.
fn check_last_error_defaults(source: &RawDocument) -> Result<()> {
    for element in elements(source) {
        let field = Field::of("getLastErrorDefaults", element);
        let is_default = match (field.name(), Number::from_bson(field.value()).and_then(Number::to_i64_exact)) {
            ("w", Some(1)) | ("wtimeout", Some(0)) => true,
            ("j" | "fsync", _) => !field.boolean()?,
            _ => false,
        };
        if !is_default {
            let message = "getLastErrorDefaults can only be {w: 1, wtimeout: 0}: setDefaultRWConcern sets a default";
            return Err(invalid(message));
        }
    }
    Ok(())
}

fn object_id(field: Field<'_>) -> Result<ObjectId> {
    match field.value() {
        RawBsonRef::ObjectId(id) => Ok(id),
        _ => Err(field.wrong_type("type 'objectId'")),
    }
}

/// A number as small as it is.
fn put_number(document: &mut DocumentWriter<'_>, name: &str, number: i64) {
    match i32::try_from(number) {
        Ok(small) => document.int32(name, small),
        Err(_) => document.int64(name, number),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn parse(source: bson::Document) -> Result<Configuration> {
        Configuration::parse(&RawDocumentBuf::try_from(&source).unwrap())
    }

    #[test]
    fn what_is_told_can_be_read() {
        let source = doc! {
            "_id": "rs0", "version": 3, "term": 7i64,
            "members": [{"_id": 4, "host": "db1", "priority": 2.5, "tags": {"dc": "east"}}],
            "settings": {
                "electionTimeoutMillis": 5000, "chainingAllowed": false, "replicaSetId": ObjectId::from_bytes([5; 12]),
                "getLastErrorModes": {"anywhere": {"dc": 1}, "twice": {"dc": 2}, "elsewhere": {"rack": 1}},
            },
        };
        let configuration = parse(source).unwrap();
        assert_eq!(configuration.member.host, "db1:27017");
        assert_eq!(configuration.election_timeout_millis(), 5000);
        assert_eq!(configuration.can_satisfy("anywhere"), Some(true));
        assert_eq!(configuration.can_satisfy("twice"), Some(false));
        assert_eq!(configuration.can_satisfy("elsewhere"), Some(false));
        assert_eq!(configuration.can_satisfy("nowhere"), None);
        assert_eq!(Configuration::parse(&configuration.to_document().unwrap()).unwrap(), configuration);
    }

    #[test]
    fn what_one_member_cannot_be_is_refused() {
        let code = |member: bson::Document| {
            let mut whole = doc! {"_id": 0, "host": "h:1"};
            whole.extend(member);
            parse(doc! {"_id": "rs0", "members": [whole]}).unwrap_err().code
        };
        for field in ["arbiterOnly", "hidden"] {
            assert_eq!(code(doc! {field: true}), 93, "{field}");
        }
        assert_eq!(code(doc! {"priority": 0}), 93);
        assert_eq!(code(doc! {"priority": 1001}), 93);
        assert_eq!(code(doc! {"votes": 0}), 93);
        assert_eq!(code(doc! {"secondaryDelaySecs": 5}), 93);
        assert_eq!(code(doc! {"host": "h:x"}), 9);
        assert_eq!(code(doc! {"_id": 300}), 93);
        assert_eq!(code(doc! {"rank": 1}), 40415);
    }

    #[test]
    fn a_set_needs_a_name_and_one_member() {
        let one = || doc! {"_id": 0, "host": "h:1"};
        let code = |source: bson::Document| parse(source).unwrap_err().code;
        assert_eq!(code(doc! {"members": [one()]}), 93);
        assert_eq!(code(doc! {"_id": "rs0"}), 93);
        assert_eq!(code(doc! {"_id": "rs0", "members": []}), 93);
        assert_eq!(code(doc! {"_id": "rs0", "members": [one(), {"_id": 1, "host": "h:2"}]}), 238);
        assert_eq!(code(doc! {"_id": "rs0", "version": 0, "members": [one()]}), 93);
        assert_eq!(code(doc! {"_id": "rs0", "protocolVersion": 0, "members": [one()]}), 93);
        assert_eq!(code(doc! {"_id": "rs0", "members": [one()], "settings": {"getLastErrorDefaults": {"w": 2}}}), 93);
    }

    #[test]
    fn addresses_have_ports() {
        assert_eq!(host_with_port("h").unwrap(), "h:27017");
        assert_eq!(host_with_port("[::1]").unwrap(), "[::1]:27017");
        assert_eq!(host_with_port("[::1]:5").unwrap(), "[::1]:5");
        for wrong in ["", ":5", "h:", "h:0", "h:65536", "::1", "h h:5"] {
            assert!(host_with_port(wrong).is_err(), "{wrong}");
        }
    }
}
