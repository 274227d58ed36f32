//! Error codes and their names, as clients know them.
//!
//! Used by `error`. Numbers and names are those of MongoDB's list of error codes, which drivers and applications match on.

/// Code and name of every error that is raised by name.
const CODES: &[(&str, i32)] = &[
    ("InternalError", 1),
    ("BadValue", 2),
    ("NoSuchKey", 4),
    ("GraphContainsCycle", 5),
    ("HostUnreachable", 6),
    ("HostNotFound", 7),
    ("UnknownError", 8),
    ("FailedToParse", 9),
    ("CannotMutateObject", 10),
    ("UserNotFound", 11),
    ("Unauthorized", 13),
    ("RoleNotFound", 31),
    ("RolesNotRelated", 32),
    ("PrivilegeNotFound", 33),
    ("InvalidRoleModification", 49),
    ("MechanismUnavailable", 334),
    ("TypeMismatch", 14),
    ("Overflow", 15),
    ("InvalidLength", 16),
    ("ProtocolError", 17),
    ("AuthenticationFailed", 18),
    ("CannotReuseObject", 19),
    ("IllegalOperation", 20),
    ("EmptyArrayOperation", 21),
    ("InvalidBSON", 22),
    ("LockTimeout", 24),
    ("IndexNotFound", 27),
    ("NamespaceNotFound", 26),
    ("PathNotViable", 28),
    ("CannotBackfillArray", 34),
    ("ConflictingUpdateOperators", 40),
    ("NotExactValueField", 111),
    ("CursorNotFound", 43),
    ("LockBusy", 46),
    ("NamespaceExists", 48),
    ("MaxTimeMSExpired", 50),
    ("DollarPrefixedFieldName", 52),
    ("InvalidIdField", 53),
    ("NotSingleValueField", 54),
    ("InvalidDBRef", 55),
    ("EmptyFieldName", 56),
    ("DottedFieldName", 57),
    ("CommandNotFound", 59),
    ("WriteConcernFailed", 64),
    ("MultipleErrorsOccurred", 65),
    ("ImmutableField", 66),
    ("CannotCreateIndex", 67),
    ("IndexAlreadyExists", 68),
    ("InvalidOptions", 72),
    ("InvalidNamespace", 73),
    ("IndexOptionsConflict", 85),
    ("IndexKeySpecsConflict", 86),
    ("NetworkTimeout", 89),
    ("ShutdownInProgress", 91),
    ("PrimarySteppedDown", 189),
    ("ExceededTimeLimit", 262),
    ("SocketException", 9001),
    ("InterruptedDueToReplStateChange", 11602),
    ("NotPrimaryNoSecondaryOk", 13435),
    ("NotPrimaryOrSecondary", 13436),
    ("OperationFailed", 96),
    ("CursorInUse", 12051),
    ("NodeNotFound", 74),
    ("NoReplicationEnabled", 76),
    ("AlreadyInitialized", 23),
    ("InvalidReplicaSetConfig", 93),
    ("NotYetInitialized", 94),
    ("NotSecondary", 95),
    ("NewReplicaSetConfigurationIncompatible", 103),
    ("MaxStalenessOutOfRange", 160),
    ("StaleClusterTime", 209),
    ("UnknownReplWriteConcern", 79),
    ("UnsatisfiableWriteConcern", 100),
    ("WriteConflict", 112),
    ("ConflictingOperationInProgress", 117),
    ("CommandNotSupported", 115),
    ("ClientMetadataMissingField", 183),
    ("ClientMetadataCannotBeMutated", 186),
    ("ClientMetadataDocumentTooLarge", 187),
    ("TooManyLogicalSessions", 261),
    ("DocumentValidationFailure", 121),
    ("ReadConcernMajorityNotEnabled", 148),
    ("NoProgressMade", 82),
    ("CappedPositionLost", 136),
    ("ExceededMemoryLimit", 146),
    ("CommandNotSupportedOnView", 166),
    ("InvalidPipelineOperator", 168),
    ("CannotIndexParallelArrays", 171),
    ("QueryPlanKilled", 175),
    ("SnapshotUnavailable", 246),
    ("SnapshotTooOld", 239),
    ("InvalidUUID", 207),
    ("CursorKilled", 237),
    ("InvalidResumeToken", 260),
    ("ChangeStreamFatalError", 280),
    ("NoMatchingDocument", 47),
    ("NoSuchSession", 206),
    ("NoSuchTransaction", 251),
    ("TransactionCommitted", 256),
    ("InvalidIndexSpecificationOption", 197),
    ("IncompleteTransactionHistory", 217),
    ("TransactionTooOld", 225),
    ("QueryFeatureNotAllowed", 224),
    ("NotImplemented", 238),
    ("ConversionFailure", 241),
    ("OperationNotSupportedInTransaction", 263),
    ("IndexBuildAborted", 276),
    ("BackgroundOperationInProgressForNamespace", 12587),
    ("UnsatisfiableCommitQuorum", 278),
    ("ChangeStreamHistoryLost", 286),
    ("ClientDisconnect", 279),
    ("NoQueryExecutionPlans", 291),
    ("ClusterTimeFailsRateLimiter", 202),
    ("QueryExceededMemoryLimitNoDiskUseAllowed", 292),
    ("TransactionTooLargeForCache", 319),
    ("APIVersionError", 322),
    ("APIStrictError", 323),
    ("APIMismatchError", 325),
    ("UnsupportedOpQueryCommand", 352),
    ("IngressRequestRateLimitExceeded", 462),
    ("NotWritablePrimary", 10107),
    ("BSONObjectTooLarge", 10334),
    ("DuplicateKey", 11000),
    ("InterruptedAtShutdown", 11600),
    ("Interrupted", 11601),
    ("OutOfDiskSpace", 14031),
    ("KeyTooLong", 17280),
    ("DatabaseDifferCase", 13297),
    ("OfflineValidationFailedToComplete", 389),
];

/// The code of a name; names that are not in the list are a mistake of ours and count as internal errors.
pub(crate) fn code_of(name: &str) -> i32 {
    debug_assert!(CODES.iter().any(|(known, _)| *known == name), "{name} is not in the list of error codes");
    CODES.iter().find(|(known, _)| *known == name).map_or(1, |(_, code)| *code)
}

/// The name of a code, if it is in the list.
pub(crate) fn name_of(code: i32) -> Option<&'static str> {
    CODES.iter().find(|(_, known)| *known == code).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_unique() {
        for (position, (name, code)) in CODES.iter().enumerate() {
            for (other_name, other_code) in &CODES[position + 1..] {
                assert!(name != other_name && code != other_code, "{name} {other_name}");
            }
        }
    }
}
