//! Which rules of a schema a value breaks, in the shape of MongoDB's `errInfo`.
//!
//! Called by `failure` for a document that a validator refused, so nothing here is fast.

use bson::raw::{CStr, cstr};
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use document::{array_elements, elements, work};

use super::super::failure::{Considered, array_of};
use super::{Check, Dependency, Others, Rule, Schema, duplicate_of, has, is_additional, is_match};
use crate::error::Result;

/// The rules that a value breaks, each described.
pub(crate) fn broken_rules(
    schema: &Schema,
    value: RawBsonRef<'_>,
    considered: &Considered,
) -> Result<Vec<RawDocumentBuf>> {
    let mut broken = Vec::new();
    for rule in &schema.rules {
        work::step()?;
        if !rule.check.holds(value)? {
            broken.push(rule.describe(value, considered)?);
        }
    }
    Ok(broken)
}

/// Adds what the schema says of itself.
pub(crate) fn add_annotations(schema: &Schema, described: &mut RawDocumentBuf) {
    if let Some(title) = &schema.title {
        described.append(cstr!("title"), title.as_str());
    }
    if let Some(description) = &schema.description {
        described.append(cstr!("description"), description.as_str());
    }
}

impl Rule {
    fn describe(&self, value: RawBsonRef<'_>, considered: &Considered) -> Result<RawDocumentBuf> {
        let mut described = RawDocumentBuf::new();
        described.append(cstr!("operatorName"), self.keyword);
        if !self.specified.is_empty() {
            considered.add(&mut described, cstr!("specifiedAs"), RawBsonRef::Document(&self.specified));
        }
        match &self.check {
            Check::AllOf(schemas) | Check::AnyOf(schemas) => {
                described.append(cstr!("schemasNotSatisfied"), not_satisfied(schemas, value, considered)?);
            }
            Check::OneOf(schemas) => one_of(schemas, value, considered, &mut described)?,
            Check::Not(_) => described.append(cstr!("reason"), "child expression matched"),
            Check::Properties(_)
            | Check::PatternProperties(_)
            | Check::AdditionalProperties { .. }
            | Check::Dependencies(_)
            | Check::Required(_) => {
                if let RawBsonRef::Document(document) = value {
                    self.describe_properties(document, considered, &mut described)?;
                }
            }
            Check::Items(_) | Check::ItemList(_) | Check::AdditionalItems { .. } => {
                if let RawBsonRef::Array(array) = value {
                    self.describe_items(array, considered, &mut described)?;
                }
            }
            _ => self.describe_value(value, considered, &mut described)?,
        }
        Ok(described)
    }

    /// A rule about the value itself.
    fn describe_value(
        &self,
        value: RawBsonRef<'_>,
        considered: &Considered,
        described: &mut RawDocumentBuf,
    ) -> Result<()> {
        let reason = match &self.check {
            Check::Type(_) => "type did not match",
            Check::Enum(_) => "value was not found in enum",
            Check::Limit { .. } => "comparison failed",
            Check::MultipleOf(_) => "considered value is not a multiple of the specified value",
            Check::TextLength(..) => "specified string length was not satisfied",
            Check::Pattern(_) => "regular expression did not match",
            Check::PropertyCount(..) => "specified number of properties was not satisfied",
            Check::ItemCount(..) => "array did not match specified length",
            _ => "found a duplicate item",
        };
        described.append(cstr!("reason"), reason);
        considered.add(described, cstr!("consideredValue"), value);
        match (&self.check, value) {
            (Check::Type(_), _) => {
                described.append(cstr!("consideredType"), document::type_name(value.element_type()));
            }
            (Check::PropertyCount(..), RawBsonRef::Document(document)) => {
                described.append(cstr!("numberOfProperties"), elements(document).count() as i32);
            }
            (Check::UniqueItems, RawBsonRef::Array(array)) => {
                if let Some(twice) = duplicate_of(array)? {
                    considered.add(described, cstr!("duplicatedValue"), twice);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn describe_properties(
        &self,
        document: &RawDocument,
        considered: &Considered,
        described: &mut RawDocumentBuf,
    ) -> Result<()> {
        match &self.check {
            Check::Required(names) => {
                let missing = names.iter().filter(|name| !has(document, name)).map(String::as_str);
                described.append(cstr!("missingProperties"), missing.collect::<RawArrayBuf>());
            }
            Check::Properties(named) => {
                let mut broken = Vec::new();
                for (name, schema) in named {
                    let Some(value) = document::get_field(document, name) else { continue };
                    broken.extend(part(cstr!("propertyName"), name.as_str().into(), schema, value, considered)?);
                }
                described.append(cstr!("propertiesNotSatisfied"), array_of(broken));
            }
            Check::PatternProperties(patterns) => {
                let mut broken = Vec::new();
                for element in elements(document) {
                    for (pattern, schema) in patterns {
                        if !is_match(pattern, element.name())? {
                            continue;
                        }
                        let name = RawBson::from(element.name());
                        let value = element.value();
                        if let Some(mut found) = part(cstr!("propertyName"), name, schema, value, considered)? {
                            found.append(cstr!("regexMatched"), pattern.pattern());
                            broken.push(found);
                        }
                    }
                }
                described.append(cstr!("details"), array_of(broken));
            }
            Check::AdditionalProperties { named, patterns, others } => {
                let mut additional = Vec::new();
                for element in elements(document) {
                    if is_additional(element.name(), named, patterns)? && !others.accept(element.value())? {
                        additional.push(element);
                    }
                }
                match (others, additional.first()) {
                    (Others::Like(schema), Some(first)) => {
                        let reason = "at least one additional property did not match the subschema";
                        described.append(cstr!("reason"), reason);
                        described.append(cstr!("failingProperty"), first.name());
                        let details = broken_rules(schema, first.value(), considered)?;
                        described.append(cstr!("details"), array_of(details));
                    }
                    _ => {
                        let names = additional.iter().map(|element| element.name());
                        described.append(cstr!("additionalProperties"), names.collect::<RawArrayBuf>());
                    }
                }
            }
            Check::Dependencies(dependencies) => {
                let mut broken = Vec::new();
                for (name, dependency) in dependencies.iter().filter(|(name, _)| has(document, name)) {
                    broken.extend(failing_dependency(document, name, dependency, considered)?);
                }
                described.append(cstr!("failingDependencies"), array_of(broken));
            }
            _ => {}
        }
        Ok(())
    }

    fn describe_items(
        &self,
        array: &bson::RawArray,
        considered: &Considered,
        described: &mut RawDocumentBuf,
    ) -> Result<()> {
        let schema_of = |position: usize| match &self.check {
            Check::Items(schema) => Some(&**schema),
            Check::ItemList(schemas) => schemas.get(position),
            Check::AdditionalItems { first, others: Others::Like(schema) } if position >= *first => Some(&**schema),
            _ => None,
        };
        if let Check::AdditionalItems { first, others: Others::Forbidden } = &self.check {
            described.append(cstr!("reason"), "found additional items");
            let mut items = RawArrayBuf::new();
            for item in array_elements(array).skip(*first).filter(|item| considered.has_room_for(item.value())) {
                items.push(RawBson::from(item.value()));
            }
            described.append(cstr!("additionalItems"), items);
            return Ok(());
        }
        let what = if let Check::AdditionalItems { .. } = &self.check { "additional item" } else { "item" };
        for (position, item) in array_elements(array).enumerate() {
            let Some(schema) = schema_of(position) else { continue };
            let broken = broken_rules(schema, item.value(), considered)?;
            if !broken.is_empty() {
                let reason = format!("At least one {what} did not match the sub-schema");
                described.append(cstr!("reason"), reason);
                described.append(cstr!("itemIndex"), position as i32);
                described.append(cstr!("details"), array_of(broken));
                break;
            }
        }
        Ok(())
    }
}

/// What one named part of a value breaks; nothing when it is as it should be.
fn part(
    name: &CStr,
    named: RawBson,
    schema: &Schema,
    value: RawBsonRef<'_>,
    considered: &Considered,
) -> Result<Option<RawDocumentBuf>> {
    let broken = broken_rules(schema, value, considered)?;
    if broken.is_empty() {
        return Ok(None);
    }
    let mut described = RawDocumentBuf::new();
    described.append(name, named);
    add_annotations(schema, &mut described);
    described.append(cstr!("details"), array_of(broken));
    Ok(Some(described))
}

fn not_satisfied(schemas: &[Schema], value: RawBsonRef<'_>, considered: &Considered) -> Result<RawArrayBuf> {
    let mut broken = Vec::new();
    for (position, schema) in schemas.iter().enumerate() {
        broken.extend(part(cstr!("index"), RawBson::Int32(position as i32), schema, value, considered)?);
    }
    Ok(array_of(broken))
}

fn one_of(
    schemas: &[Schema],
    value: RawBsonRef<'_>,
    considered: &Considered,
    described: &mut RawDocumentBuf,
) -> Result<()> {
    let mut matching = RawArrayBuf::new();
    for (position, schema) in schemas.iter().enumerate() {
        if schema.accepts(value)? {
            matching.push(position as i32);
        }
    }
    if matching.is_empty() {
        described.append(cstr!("schemasNotSatisfied"), not_satisfied(schemas, value, considered)?);
    } else {
        described.append(cstr!("reason"), "more than one subschema matched");
        described.append(cstr!("matchingSchemaIndexes"), matching);
    }
    Ok(())
}

fn failing_dependency(
    document: &RawDocument,
    name: &str,
    dependency: &Dependency,
    considered: &Considered,
) -> Result<Option<RawDocumentBuf>> {
    let mut described = RawDocumentBuf::new();
    described.append(cstr!("conditionalProperty"), name);
    match dependency {
        Dependency::Properties(names) => {
            let missing: RawArrayBuf = names.iter().filter(|name| !has(document, name)).map(String::as_str).collect();
            if missing.is_empty() {
                return Ok(None);
            }
            described.append(cstr!("missingProperties"), missing);
        }
        Dependency::Schema(schema) => {
            let broken = broken_rules(schema, RawBsonRef::Document(document), considered)?;
            if broken.is_empty() {
                return Ok(None);
            }
            add_annotations(schema, &mut described);
            described.append(cstr!("details"), array_of(broken));
        }
    }
    Ok(Some(described))
}
