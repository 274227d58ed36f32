//! `getParameter`: the server parameters of MongoDB that have a meaning here, with the values they have.

use bson::{RawBsonRef, RawDocument};

use super::parameters::algorithm_name;
use super::versions::FEATURE_COMPATIBILITY_VERSION;
use crate::DocumentWriter;
use crate::admission::Class;
use crate::arguments::{Arguments, Field};
use crate::context::{Context, ServerContext};
use crate::error::{CommandError, Result};
use crate::schema::take_generic;
use crate::sessions::TIMEOUT_MINUTES;

/// The value of a parameter.
enum Value {
    Boolean(bool),
    Int32(i32),
    FeatureCompatibility,
    TestCommands,
    TransactionLifetime,
    AdmissionAlgorithm,
    Tickets(Class),
}

/// All parameters, sorted.
const PARAMETERS: &[(&str, Value)] = &[
    ("enableTestCommands", Value::TestCommands),
    ("featureCompatibilityVersion", Value::FeatureCompatibility),
    ("localLogicalSessionTimeoutMinutes", Value::Int32(TIMEOUT_MINUTES)),
    ("notablescan", Value::Boolean(false)),
    ("requireApiVersion", Value::Boolean(false)),
    ("storageEngineConcurrencyAdjustmentAlgorithm", Value::AdmissionAlgorithm),
    ("storageEngineConcurrentReadTransactions", Value::Tickets(Class::Read)),
    ("storageEngineConcurrentWriteTransactions", Value::Tickets(Class::Write)),
    ("transactionLifetimeLimitSeconds", Value::TransactionLifetime),
    ("ttlMonitorEnabled", Value::Boolean(true)),
];

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let wants_all = match arguments.target().map(|field| field.value()) {
        Some(RawBsonRef::String("*")) => true,
        Some(RawBsonRef::Document(options)) => parse_options(options)?,
        _ => false,
    };
    let mut wanted = Vec::new();
    for field in arguments.fields() {
        // Names that are no parameters are left out of the reply.
        if !take_generic(&mut arguments, field)? {
            wanted.push(field.name());
        }
    }
    let mut found = 0;
    for (name, value) in PARAMETERS {
        if wants_all || wanted.contains(name) {
            value.write(context.server, name, reply);
            found += 1;
        }
    }
    if found == 0 { Err(CommandError::named("InvalidOptions", "no option found to get")) } else { Ok(()) }
}

fn parse_options(options: &RawDocument) -> Result<bool> {
    let mut wants_all = false;
    for element in document::elements(options) {
        let field = Field::of("getParameter", element);
        match field.name() {
            "allParameters" => wants_all = field.boolean()?,
            "showDetails" if !field.boolean()? => {}
            "showDetails" | "setAt" => return Err(field.not_implemented()),
            _ => return Err(field.unknown()),
        }
    }
    Ok(wants_all)
}

impl Value {
    fn write(&self, server: &ServerContext, name: &str, reply: &mut DocumentWriter<'_>) {
        match self {
            Value::TestCommands => reply.boolean(name, server.facts.has_test_commands),
            Value::TransactionLifetime => reply.count(name, server.parameters.transaction_lifetime_seconds()),
            Value::AdmissionAlgorithm => reply.string(name, algorithm_name(server.admission.algorithm())),
            Value::Tickets(class) => reply.count(name, server.admission.limit(*class).unwrap_or_default()),
            Value::Boolean(value) => reply.boolean(name, *value),
            Value::Int32(value) => reply.int32(name, *value),
            Value::FeatureCompatibility => {
                reply.document(name, |value| value.string("version", FEATURE_COMPATIBILITY_VERSION));
            }
        }
    }
}
