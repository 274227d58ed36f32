//! Reading a chunk back. Whatever the bytes are, this ends with a chunk or an error.

use super::bytes::{Reader, unzigzag};
use super::{Chunk, Column, NUMBER, TEXT, VERSION, WHOLE};
use crate::figures::Figure;

/// Why bytes are no chunk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DamagedChunk {
    /// They end too soon.
    #[error("the figures end too soon")]
    Short,
    /// A number is longer than numbers are.
    #[error("a number of the figures makes no sense")]
    Number,
    /// A text is not UTF-8.
    #[error("a text of the figures is no text")]
    Text,
    /// A later program wrote it.
    #[error("the figures are of version {0}, which this program does not know")]
    Version(u64),
}

impl Chunk {
    /// Reads what [`super::ChunkWriter::encode`] made.
    ///
    /// # Errors
    /// It is damaged, or of a later version.
    pub fn decode(bytes: &[u8]) -> Result<Chunk, DamagedChunk> {
        let mut reader = Reader(bytes);
        match reader.varint()? {
            VERSION => {}
            other => return Err(DamagedChunk::Version(other)),
        }
        let (moments, texts, columns) = (reader.count(1)?, reader.count(1)?, reader.count(4)?);
        let mut time = 0_i64;
        let mut times = Vec::with_capacity(moments);
        for _ in 0..moments {
            time = time.wrapping_add(unzigzag(reader.varint()?));
            times.push(time);
        }
        let texts: Vec<&str> = (0..texts).map(|_| reader.text()).collect::<Result<_, _>>()?;
        let columns = (0..columns).map(|_| column(&mut reader, moments, &texts)).collect::<Result<_, _>>()?;
        Ok(Chunk { times, columns })
    }
}

fn column(reader: &mut Reader<'_>, moments: usize, texts: &[&str]) -> Result<Column, DamagedChunk> {
    let path = reader.text()?.to_owned();
    let kind = reader.byte()?;
    let runs = reader.count(1)?;
    let lengths: Vec<u64> = (0..runs).map(|_| reader.varint()).collect::<Result<_, _>>()?;
    let mut stored = Reader(reader.bytes()?);
    let (mut values, mut last) = (Vec::with_capacity(moments), 0_i64);
    for (run, length) in lengths.into_iter().enumerate() {
        if length > (moments - values.len()) as u64 {
            return Err(DamagedChunk::Number);
        }
        for _ in 0..length {
            values.push(if run.is_multiple_of(2) { None } else { Some(value(&mut stored, kind, &mut last, texts)?) });
        }
    }
    values.resize(moments, None);
    Ok(Column { path, values })
}

fn value(stored: &mut Reader<'_>, kind: u8, last: &mut i64, texts: &[&str]) -> Result<Figure, DamagedChunk> {
    let difference = stored.varint()?;
    *last = if kind == NUMBER { *last ^ difference as i64 } else { last.wrapping_add(unzigzag(difference)) };
    match kind {
        WHOLE => Ok(Figure::Whole(*last)),
        NUMBER => Ok(Figure::Number(f64::from_bits(*last as u64))),
        TEXT => {
            let place = usize::try_from(*last).map_err(|_| DamagedChunk::Number)?;
            Ok(Figure::Text((*texts.get(place).ok_or(DamagedChunk::Number)?).to_owned()))
        }
        _ => Err(DamagedChunk::Number),
    }
}
