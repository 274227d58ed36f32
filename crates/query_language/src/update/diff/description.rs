//! The `updateDescription` of change events: the changes of a delta by dotted path.

use bson::raw::{CString, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, cstr};

use crate::error::Result;

/// Whether paths that can be read in two ways are also told component by component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disambiguation {
    /// As change streams show it by default.
    Left,
    /// `disambiguatedPaths`.
    Told,
}

/// One step of a path.
#[derive(Clone, Copy)]
enum Component<'a> {
    Field(&'a str),
    /// A place in an array.
    Item(&'a str),
}

#[derive(Default)]
struct Description<'a> {
    path: Vec<Component<'a>>,
    updated: RawDocumentBuf,
    removed: RawArrayBuf,
    truncated: RawArrayBuf,
    disambiguated: RawDocumentBuf,
}

/// `{updatedFields: {path: value}, removedFields: [path], truncatedArrays: [{field: path, newSize: n}]}`.
pub(super) fn describe(delta: &RawDocument, disambiguation: Disambiguation) -> Result<RawDocumentBuf> {
    let mut description = Description::default();
    description.document(delta)?;
    let mut out = RawDocumentBuf::new();
    out.append(cstr!("updatedFields"), description.updated);
    out.append(cstr!("removedFields"), description.removed);
    out.append(cstr!("truncatedArrays"), description.truncated);
    if disambiguation == Disambiguation::Told {
        out.append(cstr!("disambiguatedPaths"), description.disambiguated);
    }
    Ok(out)
}

impl<'a> Description<'a> {
    fn document(&mut self, delta: &'a RawDocument) -> Result<()> {
        for part in delta {
            let (name, fields) = part?;
            let RawBsonRef::Document(fields) = fields else { continue };
            match name.as_str() {
                "d" => {
                    for field in fields {
                        self.path.push(Component::Field(field?.0.as_str()));
                        let path = self.take_path()?;
                        self.removed.push(path);
                    }
                }
                "u" | "i" => {
                    for field in fields {
                        let (name, value) = field?;
                        self.path.push(Component::Field(name.as_str()));
                        self.update(value)?;
                    }
                }
                nested => {
                    self.path.push(Component::Field(nested.get(1..).unwrap_or_default()));
                    self.nested(fields)?;
                    self.path.pop();
                }
            }
        }
        Ok(())
    }

    fn array(&mut self, delta: &'a RawDocument) -> Result<()> {
        for change in delta {
            let (name, value) = change?;
            match (name.as_str(), value) {
                ("a", _) => {}
                ("l", RawBsonRef::Int32(length)) => {
                    let mut entry = RawDocumentBuf::new();
                    entry.append(cstr!("field"), self.note_path()?);
                    entry.append(cstr!("newSize"), length);
                    self.truncated.push(entry);
                }
                (name, value) => {
                    self.path.push(Component::Item(name.get(1..).unwrap_or_default()));
                    match value {
                        RawBsonRef::Document(nested) if name.starts_with('s') => {
                            self.nested(nested)?;
                            self.path.pop();
                        }
                        value => self.update(value)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn nested(&mut self, delta: &'a RawDocument) -> Result<()> {
        let first = delta.iter().next().transpose()?;
        match first.is_some_and(|(name, value)| name.as_str() == "a" && value == RawBsonRef::Boolean(true)) {
            true => self.array(delta),
            false => self.document(delta),
        }
    }

    fn update(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        let path = self.take_path()?;
        self.updated.append(CString::try_from(path)?, value);
        Ok(())
    }

    /// The dotted path, whose last component is done with.
    fn take_path(&mut self) -> Result<String> {
        let path = self.note_path()?;
        self.path.pop();
        Ok(path)
    }

    /// The dotted path; when it can be read in two ways, its components go into `disambiguatedPaths`.
    fn note_path(&mut self) -> Result<String> {
        let mut dotted = String::new();
        for (at, component) in self.path.iter().enumerate() {
            if at > 0 {
                dotted.push('.');
            }
            dotted.push_str(component.name());
        }
        if self.path.iter().enumerate().any(|(at, component)| component.is_ambiguous(at)) {
            let mut components = RawArrayBuf::new();
            for component in &self.path {
                match component {
                    Component::Field(name) => components.push(*name),
                    Component::Item(place) => components.push(place.parse::<i32>().unwrap_or_default()),
                }
            }
            self.disambiguated.append(CString::try_from(dotted.clone())?, components);
        }
        Ok(dotted)
    }
}

impl<'a> Component<'a> {
    fn name(&self) -> &'a str {
        match self {
            Component::Field(name) | Component::Item(name) => name,
        }
    }

    /// Whether a path with this component could mean something else: a field with a dot in its name, or one below the top whose name is a number.
    fn is_ambiguous(&self, at: usize) -> bool {
        let Component::Field(name) = self else { return false };
        let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        name.contains('.') || (at > 0 && is_number)
    }
}
