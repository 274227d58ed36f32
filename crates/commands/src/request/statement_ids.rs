//! The numbers of a write command's statements, by which a retry is known.
//!
//! Read with the fields that any command may have (`arguments`); used by the commands that write.

use bson::RawBsonRef;
use document::Number;

use crate::request::error::Result;
use crate::request::field::Field;
use crate::request::session_fields::invalid;

/// The numbers of a write command's statements: `stmtIds`, or those from `stmtId` on.
#[derive(Debug, Default, Clone)]
pub(crate) struct StatementIds {
    first: i32,
    listed: Vec<i32>,
}

impl StatementIds {
    /// Takes `stmtId` or `stmtIds`.
    pub(crate) fn parse(&mut self, field: Field<'_>) -> Result<()> {
        if field.is_null() {
            return Ok(());
        }
        let number = |value: RawBsonRef<'_>| {
            let number = Number::from_bson(value).and_then(Number::to_i64_exact);
            let number = number.and_then(|number| i32::try_from(number).ok());
            number.ok_or_else(|| field.wrong_type("type 'int'"))
        };
        if field.name() == "stmtId" {
            self.first = number(field.value())?;
        } else {
            self.listed = field
                .array()?
                .into_iter()
                .flat_map(document::array_elements)
                .map(|id| number(id.value()))
                .collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// Refuses a list of another length than that of the statements.
    pub(crate) fn check_count(&self, statements: usize) -> Result<()> {
        if self.listed.is_empty() || self.listed.len() == statements {
            return Ok(());
        }
        let given = self.listed.len();
        Err(invalid(&format!(
            "Number of statement ids must match the number of batch entries. Got {given} statement ids but {statements} operations."
        )))
    }

    /// The number of the statement at a position.
    pub(crate) fn of(&self, position: usize) -> i32 {
        let counted = i64::from(self.first) + position as i64;
        self.listed.get(position).copied().unwrap_or_else(|| i32::try_from(counted).unwrap_or(i32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_numbered_from_the_first_or_as_listed() {
        let mut ids = StatementIds { first: 5, listed: Vec::new() };
        assert_eq!((ids.of(0), ids.of(2)), (5, 7));
        ids.listed = vec![9, 4];
        assert_eq!((ids.of(0), ids.of(1)), (9, 4));
        assert!(ids.check_count(2).is_ok());
        assert_eq!(ids.check_count(3).unwrap_err().code, 72);
    }
}
