//! What a key does not tell about its values: exact types of numbers, exponents of decimals, symbol or string.
//!
//! Numbers and texts are counted in the order they stand in the key. Each has a default type, and only exceptions
//! are written, so that the usual key has no type bits at all. Defaults: int32 for integers within its range, int64
//! for larger integers, double for all else; string for text.
//!
//! ```text
//! exception = (skipped << 3 | code) payload     skipped: how many defaults stand before it, 0..=31
//! code 0    31 defaults, no exception           code 4    decimal; zigzag exponent << 1 | negative zero, as varint
//! code 1    int64                               code 5    symbol
//! code 2    double                              code 6    8 bytes of a double (NaN with payload)
//! code 3    double -0.0                         code 7    16 bytes of a decimal (not canonical)
//! ```

/// The type bits of one key, under construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeBits {
    bytes: Vec<u8>,
    /// Defaults since the last exception.
    skipped: u32,
}

const SKIPPED_MAX: u32 = 31;

/// An exception to the default type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypeBit {
    Default,
    Int64,
    Double,
    NegativeZero,
    Decimal { exponent: i32, negative_zero: bool },
    Symbol,
    RawDouble([u8; 8]),
    RawDecimal([u8; 16]),
}

impl TypeBits {
    /// The bytes to store with the entry; empty when every type is the default.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets everything, for the next key.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.skipped = 0;
    }

    #[inline]
    pub(crate) fn push_default(&mut self) {
        self.skipped += 1;
    }

    pub(crate) fn push(&mut self, bit: TypeBit) {
        let code = match bit {
            TypeBit::Default => return self.push_default(),
            TypeBit::Int64 => 1,
            TypeBit::Double => 2,
            TypeBit::NegativeZero => 3,
            TypeBit::Decimal { .. } => 4,
            TypeBit::Symbol => 5,
            TypeBit::RawDouble(_) => 6,
            TypeBit::RawDecimal(_) => 7,
        };
        while self.skipped > SKIPPED_MAX {
            self.bytes.push((SKIPPED_MAX << 3) as u8);
            self.skipped -= SKIPPED_MAX;
        }
        self.bytes.push((self.skipped << 3) as u8 | code);
        self.skipped = 0;
        match bit {
            TypeBit::Decimal { exponent, negative_zero } => {
                let zigzag = (exponent << 1 ^ exponent >> 31) as u32;
                self.push_varint(zigzag << 1 | u32::from(negative_zero));
            }
            TypeBit::RawDouble(bytes) => self.bytes.extend_from_slice(&bytes),
            TypeBit::RawDecimal(bytes) => self.bytes.extend_from_slice(&bytes),
            _ => {}
        }
    }

    fn push_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// Reads type bits in the order they were pushed.
#[derive(Debug, Clone)]
pub(crate) struct TypeBitsReader<'a> {
    rest: &'a [u8],
    /// Defaults to give before `rest` is read again.
    skipped: u8,
    /// The exception after those, its code.
    code: u8,
}

impl<'a> TypeBitsReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut reader = Self { rest: bytes, skipped: 0, code: 0 };
        reader.load();
        reader
    }

    /// Reads the head of the next exception; at the end everything is default.
    fn load(&mut self) {
        (self.skipped, self.code) = match self.rest.split_first() {
            Some((&head, rest)) => {
                self.rest = rest;
                (head >> 3, head & 7)
            }
            None => (u8::MAX, 0),
        };
    }

    /// The next type; `None` when the bytes are damaged.
    pub(crate) fn next(&mut self) -> Option<TypeBit> {
        while self.skipped == 0 && self.code == 0 {
            self.load();
        }
        if self.skipped > 0 {
            if self.skipped != u8::MAX {
                self.skipped -= 1;
            }
            return Some(TypeBit::Default);
        }
        let bit = match self.code {
            1 => TypeBit::Int64,
            2 => TypeBit::Double,
            3 => TypeBit::NegativeZero,
            4 => {
                let payload = self.varint()?;
                let zigzag = payload >> 1;
                let exponent = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
                TypeBit::Decimal { exponent, negative_zero: payload & 1 == 1 }
            }
            5 => TypeBit::Symbol,
            6 => TypeBit::RawDouble(self.array()?),
            _ => TypeBit::RawDecimal(self.array()?),
        };
        self.load();
        Some(bit)
    }

    fn varint(&mut self) -> Option<u32> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21] {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u32::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*array)
    }
}
