//! From an update document of operators to the tree of its paths.

use bson::raw::RawDocument;
use bson::spec::ElementType;
use document::work;

use super::array_filters::ArrayFilters;
use super::display;
use super::element::{Element, collect, elements};
use super::limits::DEPTH_MAX;
use super::modified::TouchedPath;
use super::operator::FieldOperator;
use super::operators::rename::{Rename, RenameSource, RenameTarget};
use super::operators::{self, Form};
use super::path::UpdatePath;
use super::tree::{FieldsNode, Leaf};
use crate::error::{ErrorKind, QueryError, Result};
use crate::filter::FilterOptions;

/// An update by operators, ready to be applied.
#[derive(Debug, Default)]
pub(super) struct OperatorUpdate {
    pub(super) root: FieldsNode,
    pub(super) renames: Vec<Rename>,
    pub(super) array_filters: ArrayFilters,
    /// The paths by the number of their leaf.
    pub(super) touched: Vec<TouchedPath>,
    /// Whether a result may nest too deep although the document before did not.
    pub(super) may_exceed_depth: bool,
}

impl OperatorUpdate {
    /// Parses `{$operator: {path: operand, ...}, ...}`.
    pub(super) fn parse(update: &RawDocument, array_filters: ArrayFilters, options: &FilterOptions) -> Result<Self> {
        let mut parsed = Self { array_filters, ..Self::default() };
        for field in elements(update) {
            let Some(operator) = operators::find(field.name()) else {
                let message = format!(
                    "Unknown modifier: {}. Expected a valid update modifier or pipeline-style update specified as an array",
                    field.name()
                );
                return Err(QueryError::new(ErrorKind::FailedToParse, message));
            };
            if field.element_type != ElementType::EmbeddedDocument {
                return Err(not_a_document(&field));
            }
            for operand in collect(field.value_bytes())? {
                work::step()?;
                match &operator.form {
                    Form::OnePath(parse) => {
                        let path = UpdatePath::parse(operand.name(), &mut parsed.array_filters)?;
                        parsed.add(path, parse(&operand, options)?)?;
                    }
                    Form::Rename => parsed.add_rename(&operand)?,
                }
            }
        }
        parsed.root.put_in_order();
        parsed.array_filters.check_all_used(update)?;
        Ok(parsed)
    }

    /// Adds one operator at one path. `root.put_in_order` follows the last one.
    pub(super) fn add(&mut self, path: UpdatePath, operator: Box<dyn FieldOperator>) -> Result<()> {
        self.may_exceed_depth |= operator.written_depth().saturating_add(path.components.len()) > DEPTH_MAX;
        let number = self.touched.len();
        self.touched.push(TouchedPath::new(&path));
        self.root.insert(Leaf { path, operator, number })
    }

    fn add_rename(&mut self, operand: &Element<'_>) -> Result<()> {
        let rename = Rename::parse(operand, &mut self.array_filters)?;
        let index = self.renames.len();
        self.add(rename.source.clone(), Box::new(RenameSource { rename: index }))?;
        self.add(rename.target.clone(), Box::new(RenameTarget { rename: index }))?;
        self.renames.push(rename);
        Ok(())
    }
}

fn not_a_document(field: &Element<'_>) -> QueryError {
    let message = format!(
        "Modifiers operate on fields but we found type {} instead. For example: {{$mod: {{<field>: ...}}}} not {{{}}}",
        display::type_name(field.element_type),
        display::field(field)
    );
    QueryError::new(ErrorKind::FailedToParse, message)
}
