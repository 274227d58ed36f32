//! The `updateDescription` of change events: the changes of a delta by dotted path.

use bson::raw::{CString, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, cstr};

use crate::error::Result;

#[derive(Default)]
struct Description {
    updated: RawDocumentBuf,
    removed: RawArrayBuf,
    truncated: RawArrayBuf,
}

/// `{updatedFields: {path: value}, removedFields: [path], truncatedArrays: [{field: path, newSize: n}]}`.
pub(super) fn describe(delta: &RawDocument) -> Result<RawDocumentBuf> {
    let mut description = Description::default();
    description.document(delta, "")?;
    let mut out = RawDocumentBuf::new();
    out.append(cstr!("updatedFields"), description.updated);
    out.append(cstr!("removedFields"), description.removed);
    out.append(cstr!("truncatedArrays"), description.truncated);
    Ok(out)
}

impl Description {
    fn document(&mut self, delta: &RawDocument, prefix: &str) -> Result<()> {
        for part in delta {
            let (name, fields) = part?;
            let RawBsonRef::Document(fields) = fields else { continue };
            match name.as_str() {
                "d" => {
                    for field in fields {
                        self.removed.push(join(prefix, field?.0.as_str()));
                    }
                }
                "u" | "i" => {
                    for field in fields {
                        let (name, value) = field?;
                        self.update(&join(prefix, name.as_str()), value)?;
                    }
                }
                nested => self.nested(fields, &join(prefix, nested.get(1..).unwrap_or_default()))?,
            }
        }
        Ok(())
    }

    fn array(&mut self, delta: &RawDocument, path: &str) -> Result<()> {
        for change in delta {
            let (name, value) = change?;
            match (name.as_str(), value) {
                ("a", _) => {}
                ("l", RawBsonRef::Int32(length)) => {
                    let mut entry = RawDocumentBuf::new();
                    entry.append(cstr!("field"), path);
                    entry.append(cstr!("newSize"), length);
                    self.truncated.push(entry);
                }
                (name, value) => {
                    let item = join(path, name.get(1..).unwrap_or_default());
                    match value {
                        RawBsonRef::Document(nested) if name.starts_with('s') => self.nested(nested, &item)?,
                        value => self.update(&item, value)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn nested(&mut self, delta: &RawDocument, path: &str) -> Result<()> {
        let first = delta.iter().next().transpose()?;
        match first.is_some_and(|(name, value)| name.as_str() == "a" && value == RawBsonRef::Boolean(true)) {
            true => self.array(delta, path),
            false => self.document(delta, path),
        }
    }

    fn update(&mut self, path: &str, value: RawBsonRef<'_>) -> Result<()> {
        self.updated.append(CString::try_from(path)?, value);
        Ok(())
    }
}

fn join(prefix: &str, name: &str) -> String {
    match prefix.is_empty() {
        true => name.to_owned(),
        false => format!("{prefix}.{name}"),
    }
}
