//! Arithmetic result types, conversions and decimal text.

use bson::Decimal128;

use crate::{Decimal, Number, decimal};

fn decimal_number(text: &str) -> Number {
    Number::Decimal128(Decimal::parse(text).unwrap().to_bson())
}

fn text(number: Number) -> String {
    match number {
        Number::Int32(value) => format!("int {value}"),
        Number::Int64(value) => format!("long {value}"),
        Number::Double(value) => format!("double {value:?}"),
        Number::Decimal128(value) => format!("decimal {value}"),
    }
}

#[test]
fn result_types() {
    let (int, long, double) = (Number::Int32, Number::Int64, Number::Double);
    assert_eq!(text(int(1).add(int(2))), "int 3");
    assert_eq!(text(int(i32::MAX).add(int(1))), "long 2147483648");
    assert_eq!(text(int(1).add(long(2))), "long 3");
    assert_eq!(text(long(i64::MAX).add(int(1))), "double 9.223372036854776e18");
    assert_eq!(long(i64::MAX).checked_add(int(1)), None);
    assert_eq!(text(int(1).add(double(0.5))), "double 1.5");
    assert_eq!(text(int(3).multiply(int(-4))), "int -12");
    assert_eq!(text(int(i32::MIN).multiply(int(-1))), "long 2147483648");
    assert_eq!(long(i64::MIN).checked_multiply(long(-1)), None);
    assert_eq!(text(int(5).subtract(int(7))), "int -2");
    assert_eq!(text(int(1).add(decimal_number("0.10"))), "decimal 1.10");
    assert_eq!(text(double(0.1).add(decimal_number("1"))), "decimal 1.100000000000000");
    assert_eq!(text(int(6).divide(int(4)).unwrap()), "double 1.5");
    assert_eq!(text(int(1).divide(decimal_number("3")).unwrap()), "decimal 0.3333333333333333333333333333333333");
    assert_eq!(int(1).divide(double(-0.0)), None);
    assert_eq!(text(int(-7).remainder(int(3)).unwrap()), "int -1");
    assert_eq!(text(long(i64::MIN).remainder(int(-1)).unwrap()), "long 0");
    assert_eq!(text(double(5.5).remainder(int(2)).unwrap()), "double 1.5");
    assert_eq!(text(decimal_number("10.5").remainder(int(3)).unwrap()), "decimal 1.5");
    assert_eq!(text(int(i32::MIN).checked_absolute().unwrap()), "long 2147483648");
    assert_eq!(long(i64::MIN).checked_absolute(), None);
    assert_eq!(text(decimal_number("-0.50").checked_absolute().unwrap()), "decimal 0.50");
}

#[test]
fn conversions() {
    assert_eq!(Number::Double(3.0).to_i64_exact(), Some(3));
    assert_eq!(Number::Double(3.5).to_i64_exact(), None);
    assert_eq!(Number::Double(-3.5).to_i64_truncated(), Some(-3));
    assert_eq!(Number::Double(f64::NAN).to_i64_truncated(), None);
    assert_eq!(Number::Double(9_223_372_036_854_775_808.0).to_i64_truncated(), None);
    assert_eq!(Number::Double(-9_223_372_036_854_775_808.0).to_i64_exact(), Some(i64::MIN));
    assert_eq!(decimal_number("1.5E+3").to_i64_exact(), Some(1500));
    assert_eq!(decimal_number("1.99").to_i64_truncated(), Some(1));
    assert_eq!(decimal_number("-9223372036854775808").to_i64_exact(), Some(i64::MIN));
    assert_eq!(decimal_number("9223372036854775808").to_i64_exact(), None);
    assert_eq!(decimal_number("0E+6000").to_i64_exact(), Some(0));
    assert_eq!(decimal_number("0.1").to_f64(), 0.1);
    assert_eq!(decimal_number("1E+400").to_f64(), f64::INFINITY);
    assert_eq!(decimal::format(Decimal::from_f64(2.5)), "2.50000000000000");
    assert_eq!(decimal::format(Decimal::from_f64(-0.1)), "-0.100000000000000");
    assert_eq!(decimal::format(Decimal::from_f64(1e300)), "1.00000000000000E+300");
}

#[test]
fn decimal_text() {
    for text in [
        "0",
        "-0",
        "1.10",
        "1E+3",
        "1.5E-7",
        "NaN",
        "Infinity",
        "-Infinity",
        "0.000001",
        "9.990000000000000000000000000000000E+6144",
    ] {
        assert_eq!(decimal::format(Decimal::parse(text).unwrap()), text);
        let theirs: Decimal128 = text.parse().unwrap();
        assert_eq!(Decimal::from_bson(theirs), Decimal::parse(text).unwrap());
    }
    let rounded = Decimal::parse("12345678901234567890123456789012345").unwrap();
    assert_eq!(decimal::format(rounded), "1.234567890123456789012345678901234E+34");
    assert!(Decimal::parse("").is_none() && Decimal::parse("1x").is_none() && Decimal::parse(" 1").is_none());
}

#[test]
fn decimal_functions() {
    let parse = |text| Decimal::parse(text).unwrap();
    let rounded = |text, exponent| decimal::format(decimal::quantize(parse(text), exponent, dec::Rounding::HalfEven));
    assert_eq!(rounded("2.345", -2), "2.34");
    assert_eq!(rounded("2.355", -2), "2.36");
    assert_eq!(rounded("1234", 2), "1.2E+3");
    assert_eq!(decimal::format(decimal::square_root(parse("2"))), "1.414213562373095048801688724209698");
    assert_eq!(decimal::format(decimal::power(parse("2"), parse("10"))), "1024");
    assert_eq!(decimal::format(decimal::remainder(parse("1E+40"), parse("7"))), "4");
    assert_eq!(decimal::format(decimal::remainder(parse("-7.5"), parse("2"))), "-1.5");
    assert_eq!(decimal::remainder(parse("1"), parse("0")), Decimal::NaN);
    assert_eq!(decimal::divide(parse("1"), parse("0")), Decimal::Infinity { negative: false });
    for text in ["-0", "-1.50", "1E+6111", "1E-6176", "9999999999999999999999999999999999E+6111"] {
        assert_eq!(decimal::from_dec(decimal::to_dec(parse(text))), parse(text), "{text}");
    }
}
