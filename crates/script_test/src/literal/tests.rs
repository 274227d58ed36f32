//! Every form that can be written is read, and what is printed reads back to the same value.

use super::{parse_value, parse_values};
use crate::print::print_value;

fn reads_as(text: &str, printed: &str) {
    let value = parse_value(text).unwrap();
    assert_eq!(print_value(value.as_raw_bson_ref()), printed, "{text}");
    let again = parse_value(printed).unwrap();
    assert_eq!(print_value(again.as_raw_bson_ref()), printed, "{printed}");
}

#[test]
fn shell_syntax() {
    reads_as("{a: 1, 'b.c': [2.5, -3, 1e3], $d: {}}", "{a: 1, \"b.c\": [2.5, -3, 1000.0], $d: {}}");
    reads_as("{a.b: 1}", "{\"a.b\": 1}");
    reads_as("{a: 1, a: 2,}", "{a: 1, a: 2}");
    reads_as("9223372036854775807", "NumberLong(9223372036854775807)");
    reads_as("[NaN, Infinity, -Infinity, -0.0]", "[NaN, Infinity, -Infinity, -0.0]");
    reads_as("[MinKey(), MaxKey, undefined, null, true]", "[MinKey, MaxKey, undefined, null, true]");
    reads_as("/a\\/b\\d\"/im", "/a\\/b\\d\"/im");
    reads_as("new ISODate('2024-02-29')", "ISODate(\"2024-02-29T00:00:00Z\")");
    reads_as("UUID('00112233-4455-6677-8899-aabbccddeeff')", "HexData(4, \"00112233445566778899aabbccddeeff\")");
    reads_as("BinData(0, 'AQI=')", "HexData(0, \"0102\")");
    reads_as("NumberDecimal('1.50')", "NumberDecimal(\"1.50\")");
    reads_as("Timestamp(5, 6)", "Timestamp(5, 6)");
    reads_as("Code('f', {x: 1})", "Code(\"f\", {x: 1})");
    reads_as("'q\\u0041\\n'", "\"qA\\n\"");
}

#[test]
fn extended_json() {
    reads_as("{\"$oid\": \"0123456789abcdef01234567\"}", "ObjectId(\"0123456789abcdef01234567\")");
    reads_as("{\"a\": {\"$numberLong\": \"5\"}}", "{a: NumberLong(5)}");
    reads_as("{\"$date\": \"1970-01-01T00:00:00.005Z\"}", "ISODate(\"1970-01-01T00:00:00.005Z\")");
    reads_as("{\"$date\": {\"$numberLong\": \"0\"}}", "ISODate(\"1970-01-01T00:00:00Z\")");
    reads_as("{\"$binary\": {\"base64\": \"AQI=\", \"subType\": \"05\"}}", "HexData(5, \"0102\")");
    reads_as("{\"$regularExpression\": {\"pattern\": \"x\", \"options\": \"i\"}}", "/x/i");
    reads_as("{\"$minKey\": 1}", "MinKey");
    reads_as("{$gt: 5}", "{$gt: 5}");
}

#[test]
fn several_values_and_problems() {
    assert_eq!(parse_values("{a: 1}\n {a: 2} 3").unwrap().len(), 3);
    for bad in ["{a: 1", "{a 1}", "[1 2]", "'x", "/x", "foo", "1x", "{a: NumberLong('x')}"] {
        assert!(parse_value(bad).is_err(), "{bad}");
    }
}
