//! Sizes as people write them: `512MiB`, `1.5GiB`, `64000000`, `25%`.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A size, absolute or a share of another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of a whole: above 0, at most 100.
    Percent(f64),
}

impl Size {
    /// The size in bytes, where a share is one of `whole` bytes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and whole")]
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes,
            Size::Percent(percent) => (whole as f64 / 100.0 * percent) as u64,
        }
    }
}

/// Text that is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no size; write a number of bytes, or with a unit as 512MiB or 4GiB, or a share as 25%")]
pub struct SizeError(String);

impl FromStr for Size {
    type Err = SizeError;

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    fn from_str(text: &str) -> Result<Self, SizeError> {
        let error = || SizeError(text.to_owned());
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let number: f64 = number.parse().map_err(|_| error())?;
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "%" if number > 0.0 && number <= 100.0 => return Ok(Size::Percent(number)),
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(error()),
        };
        let bytes = number * factor as f64;
        if bytes < 1.0 || bytes >= (1_u64 << 53) as f64 {
            return Err(error());
        }
        Ok(Size::Bytes(bytes as u64))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;

        impl Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a size as \"512MiB\", \"25%\" or a number of bytes")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                bytes.to_string().parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(SizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("512MiB", 512 << 20),
            ("1GiB", 1 << 30),
            ("1.5g", 3 << 29),
            ("2GB", 2_000_000_000),
            ("7", 7),
            ("3 kib", 3072),
        ] {
            assert_eq!(text.parse(), Ok(Size::Bytes(bytes)), "{text}");
        }
        assert_eq!("25%".parse::<Size>().unwrap().of(1 << 30), 1 << 28);
        assert_eq!("100%".parse::<Size>().unwrap().of(u64::from(u32::MAX)), u64::from(u32::MAX));
        for text in ["", "GiB", "-1", "1XB", "0", "0%", "101%", "1e9", "1.2.3", "99999999TiB", "nan", "5 %x"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
